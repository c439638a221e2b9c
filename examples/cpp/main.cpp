// Trains a small transformer on made-up bytes with libtorch, under a budget given in MiB:
//
//   train --budget 96 --steps 5        (--budget 0: plain libtorch)
//
// It prints one loss a line, with all its digits, so that two runs can be compared.

#include <outsize/outsize.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>

namespace {

struct Settings {
  double budget_mib = 0;
  int steps = 5;
};

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--budget") == 0) settings.budget_mib = std::atof(argv[i + 1]);
    if (std::strcmp(argv[i], "--steps") == 0) settings.steps = std::atoi(argv[i + 1]);
  }
  return settings;
}

constexpr std::int64_t kVocabulary = 256, kWidth = 256, kBatch = 16, kLength = 64;

struct ModelImpl : torch::nn::Module {
  ModelImpl()
      : embedding(register_module("embedding", torch::nn::Embedding(kVocabulary, kWidth))),
        encoder(register_module(
            "encoder", torch::nn::TransformerEncoder(
                           torch::nn::TransformerEncoderOptions(
                               torch::nn::TransformerEncoderLayerOptions(kWidth, 4)
                                   .dim_feedforward(4 * kWidth)
                                   .dropout(0.1),
                               4)))),
        head(register_module("head", torch::nn::Linear(kWidth, kVocabulary))) {}

  torch::Tensor forward(const torch::Tensor& bytes) { return head(encoder(embedding(bytes))); }

  torch::nn::Embedding embedding;
  torch::nn::TransformerEncoder encoder;
  torch::nn::Linear head;
};
TORCH_MODULE(Model);

void train(int steps, outsize::Session* session) {
  torch::manual_seed(1);
  Model model;
  torch::optim::AdamW optimizer(model->parameters(), 1e-3);
  for (int step = 0; step < steps; ++step) {
    const auto text = torch::randint(kVocabulary, {kLength + 1, kBatch}, torch::kLong);
    optimizer.zero_grad();
    const auto guess = model(text.slice(0, 0, kLength)).reshape({-1, kVocabulary});
    const auto loss = torch::nn::functional::cross_entropy(guess, text.slice(0, 1).reshape({-1}));
    loss.backward();
    optimizer.step();
    std::printf("step %d loss %.9g\n", step, loss.item<double>());
    if (session != nullptr) session->step();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Settings settings = parse(argc, argv);
  try {
    std::optional<outsize::Session> session;
    if (settings.budget_mib > 0) {
      session.emplace(outsize::SessionOptions{.budget = outsize::MiB(settings.budget_mib)});
    }
    train(settings.steps, session ? &*session : nullptr);
    if (session) {
      const outsize::SessionStats stats = session->stats();
      std::fprintf(stderr,
                   "peak %.1f of %.1f MiB; %.1f MiB written, %.1f MiB read back; %lld evictions\n",
                   stats.resident_peak / 1048576.0, stats.budget / 1048576.0,
                   stats.write_bytes / 1048576.0, stats.read_bytes / 1048576.0,
                   static_cast<long long>(stats.evictions));
    }
  } catch (const c10::Error& error) {  // from an op; what() would list every frame
    std::fprintf(stderr, "%s\n", error.what_without_backtrace());
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
