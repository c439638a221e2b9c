// One check of the C++ API a word on the command line; prints what went wrong, or nothing.
//
//   api adopted spilled-bytes-return pins hints errors threads

#include <outsize/outsize.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace {

using outsize::MiB;
using outsize::Session;
using outsize::Use;

int failures = 0;

#define EXPECT(condition)                                                  \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                          \
    }                                                                      \
  } while (false)

template <class Wanted, class Call>
std::string thrown_by(Call&& call) {
  try {
    call();
  } catch (const Wanted& error) {
    return error.what();
  }
  return "";
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A few layers with Adam; the losses are its result.
struct Training {
  Training() {
    torch::manual_seed(3);
    for (int i = 0; i < 6; ++i) {
      layers->push_back(torch::nn::Linear(kWidth, kWidth));
      layers->push_back(torch::nn::ReLU());
    }
    optimizer.emplace(layers->parameters(), torch::optim::AdamOptions(1e-3));
  }
  void step() {
    optimizer->zero_grad();
    const auto input = torch::rand({64, kWidth});
    const auto loss = (layers->forward(input) - input).square().mean();
    loss.backward();
    optimizer->step();
    losses.push_back(loss.item<float>());
  }
  static constexpr std::int64_t kWidth = 512;  // 1 MiB a weight, 24 MiB with gradients and states
  torch::nn::Sequential layers;
  std::optional<torch::optim::Adam> optimizer;
  std::vector<float> losses;
};

std::vector<float> plain_losses(int steps) {
  Training training;
  for (int i = 0; i < steps; ++i) training.step();
  return training.losses;
}

// Weights, gradients and states were all born before the session.
void adopted() {
  const auto plain = plain_losses(5);
  Training training;
  training.step();
  training.step();
  Session session({.budget = MiB(12)});
  for (int i = 0; i < 3; ++i) training.step(), session.step();
  const auto stats = session.stats();
  EXPECT(training.losses == plain);
  EXPECT(stats.resident_peak <= stats.budget + MiB(25));  // what it found when it came
  EXPECT(stats.resident <= stats.budget);
  EXPECT(stats.write_bytes > MiB(12) && stats.read_bytes > MiB(12));
  EXPECT(stats.steps == 3 && stats.ops > 100 && stats.evictions > 0);
}

void spilled_bytes_return() {
  const auto plain = plain_losses(6);
  const auto expected = torch::arange(4 << 20, torch::kInt);
  std::optional<Training> training;
  torch::Tensor kept;
  {
    Session session({.budget = MiB(24), .policy = "ondemand"});
    EXPECT(session.stats().policy == "ondemand");
    training.emplace();
    kept = torch::arange(4 << 20, torch::kInt);
    for (int i = 0; i < 3; ++i) training->step(), session.step();
    EXPECT(session.stats().evictions > 0);
  }
  EXPECT(torch::equal(kept, expected));
  for (int i = 0; i < 2; ++i) training->step();  // without
  {
    Session again({.budget = MiB(12)});
    training->step();
    EXPECT(again.stats().evictions > 0);
    again.close();
    again.close();
    EXPECT(again.stats().budget == 0);
  }
  EXPECT(training->losses == plain);
}

std::vector<torch::Tensor> crowd(int count) {
  std::vector<torch::Tensor> tensors;
  for (int i = 0; i < count; ++i) tensors.push_back(torch::full({1 << 20}, i));  // 4 MiB, 8 as long
  return tensors;
}

void pins() {
  const auto before = torch::ones({1 << 20});
  const outsize::Pin nothing(before);  // without a session
  Session session({.budget = MiB(64), .policy = "ondemand"});
  outsize::Pin adopted(before);
  EXPECT(session.stats().pinned > MiB(3.9) && session.stats().pinned <= MiB(4));  // whole pages of it
  const auto first = torch::ones({2 << 20});
  outsize::Pin pin(first);
  const auto others = crowd(24);
  std::int64_t read = session.stats().read_bytes;
  EXPECT(first.sum().item<float>() == (2 << 20) && before.sum().item<float>() == (1 << 20));
  EXPECT(session.stats().read_bytes == read);  // they were here
  EXPECT(session.stats().evictions > 0);
  pin.release();
  outsize::Pin moved = std::move(adopted);
  EXPECT(session.stats().pinned <= MiB(4));
  const auto more = crowd(32);
  read = session.stats().read_bytes;
  EXPECT(first.sum().item<float>() == (2 << 20));
  EXPECT(session.stats().read_bytes > read);  // it had left

  const auto large = torch::ones({13 << 20});  // 52 of 64 MiB
  const std::string why = thrown_by<outsize::BudgetError>([&] { const outsize::Pin all(large); });
  EXPECT(says(why, "three quarters"));
  EXPECT(session.stats().pinned <= MiB(4));  // and changed nothing
  const auto middle = torch::ones({10 << 20});
  {
    const outsize::Pin most(middle);
    const std::string refused = thrown_by<c10::OutOfMemoryError>([&] { (void)torch::ones({7 << 20}); });
    EXPECT(says(refused, "are pinned"));
  }
  EXPECT(torch::ones({7 << 20}).numel() == 7 << 20);
}

void hints() {
  for (const char* policy : {"lookahead", "ondemand"}) {
    Session session({.budget = MiB(64), .policy = policy});
    const auto tensors = crowd(24);
    const auto before = session.stats();
    for (int i : {3, 1, 2}) outsize::hint(tensors[static_cast<std::size_t>(i)], Use::kSoon);
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (session.stats().read_bytes < before.read_bytes + MiB(24) && std::chrono::steady_clock::now() < give_up) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const auto fetched = session.stats();
    EXPECT(fetched.prefetched_bytes >= before.prefetched_bytes + MiB(24));
    for (int i : {3, 1, 2}) EXPECT(tensors[static_cast<std::size_t>(i)].sum().item<std::int64_t>() == i << 20);
    EXPECT(session.stats().demand_bytes == fetched.demand_bytes);  // nobody waited
    EXPECT(session.stats().prefetch_hit_bytes >= before.prefetch_hit_bytes + MiB(24));
    outsize::hint(tensors[1], Use::kLater);
    session.close();
    outsize::hint(tensors[1], Use::kSoon);  // without a session: nothing
  }
}

void errors() {
  using outsize::Error;
  EXPECT(says(thrown_by<Error>([] { Session({.budget = MiB(0.5)}); }), "1 MiB"));
  EXPECT(says(thrown_by<Error>([] { Session({.budget = MiB(9), .policy = "best"}); }), "lookahead, ondemand"));
  EXPECT(says(thrown_by<Error>([] { Session({.budget = MiB(9), .faults = "magic"}); }), "userfaultfd"));
  const std::string nowhere = thrown_by<Error>([] { Session({.budget = MiB(9), .spill_dir = "/nonexistent"}); });
  EXPECT(says(nowhere, "/nonexistent"));
  {
    Session session({.budget = MiB(64), .spill_limit = MiB(48)});
    EXPECT(says(thrown_by<Error>([] { Session({.budget = MiB(64)}); }), "already on"));
    const auto kept = torch::ones({1 << 20});
    const std::string large = thrown_by<c10::OutOfMemoryError>([] { (void)torch::ones({32 << 20}); });
    EXPECT(says(large, "128") && says(large, "budget is 64.0 MiB"));
    std::vector<torch::Tensor> many;
    const std::string full = thrown_by<c10::Error>([&] {
      for (int i = 0; i < 32; ++i) many.push_back(torch::full({1 << 20}, i));
    });
    EXPECT(says(full, "its limit is 48.0 MiB"));
    EXPECT(many.size() > 8);
    many.erase(many.begin(), many.begin() + 8);  // makes room, and the program goes on
    EXPECT(kept.sum().item<float>() == 1 << 20);
    for (std::size_t i = 0; i < many.size(); ++i) {
      EXPECT(many[i][7].item<std::int64_t>() == static_cast<std::int64_t>(i) + 8);
    }
  }
  Session after({.budget = MiB(64)});  // the one before has ended
  EXPECT(after.stats().budget == MiB(64));
}

void threads() {
  Session session({.budget = MiB(32)});
  std::int64_t without = 0, with = 0;  // ops that were seen; what allocates is seen in any case
  const auto tensor = torch::ones({1 << 20});
  std::thread([&] {
    const std::int64_t begin = session.stats().ops;
    (void)tensor.equal(tensor);
    without = session.stats().ops - begin;
    const outsize::ThreadGuard guard;
    (void)tensor.equal(tensor);
    with = session.stats().ops - begin - without;
  }).join();
  EXPECT(without == 0 && with > 0);
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, std::function<void()>> checks = {
      {"adopted", adopted}, {"spilled-bytes-return", spilled_bytes_return}, {"pins", pins},
      {"hints", hints}, {"errors", errors}, {"threads", threads}};
  for (int i = 1; i < argc; ++i) {
    try {
      checks.at(argv[i])();
    } catch (const std::exception& error) {
      std::printf("%s: %s\n", argv[i], error.what());
      ++failures;
    }
  }
  return failures == 0 ? 0 : 1;
}
