// Trains a small transformer on made-up bytes with libtorch, under a budget given in MiB:
//
//   transformer --budget 96 --steps 5        (--budget 0: plain libtorch)
//
// It prints one loss a line, with all its digits, so that two runs can be compared.

#include "common.h"

namespace {

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

void train(const examples::Settings& settings, outsize::Session* session) {
  torch::manual_seed(1);
  Model model;
  torch::optim::AdamW optimizer(model->parameters(), 1e-3);
  for (int step = 0; step < settings.steps; ++step) {
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

int main(int argc, char** argv) { return examples::run(argc, argv, train); }
