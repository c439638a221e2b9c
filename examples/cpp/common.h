// What the C++ examples share: their options, and how they say what a session did.
#pragma once

#include <outsize/outsize.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>

namespace examples {

struct Settings {
  double budget_mib = 0;  // 0: plain libtorch
  int steps = 5;
  std::string policy = "lookahead";
};

// Every option has a value: --budget 96 --steps 5 --policy ondemand
inline Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--budget") settings.budget_mib = std::atof(argv[i + 1]);
    if (option == "--steps") settings.steps = std::atoi(argv[i + 1]);
    if (option == "--policy") settings.policy = argv[i + 1];
  }
  return settings;
}

inline void report(const outsize::SessionStats& stats) {
  constexpr double kMiB = 1048576;
  std::fprintf(stderr,
               "peak %.2f of %.2f MiB, for %.2f MiB of tensors; %.1f MiB written, %.1f MiB read back, "
               "of which %.1f MiB ahead of need; %.2f s waited; %lld evictions\n",
               stats.resident_peak / kMiB, stats.budget / kMiB, stats.tensor_bytes_peak / kMiB,
               stats.write_bytes / kMiB, stats.read_bytes / kMiB, stats.prefetch_hit_bytes / kMiB,
               stats.stall_nanoseconds / 1e9, static_cast<long long>(stats.evictions));
}

// Calls what libtorch leaves to MKL once on one thread, so that losses are the same from run to run: MKL settles which code
// such a function runs when it is first called; of two threads that call it first at once, one may get code of low accuracy
// (pytorch/pytorch issue 188792). Sessions do this too; here it is for plain runs, which are compared with them.
inline void settle_vector_math() {
  const torch::Tensor few = torch::full({4}, 0.5);
  for (const auto function : {torch::cos, torch::erf, torch::exp, torch::log, torch::sin, torch::sqrt, torch::tanh}) {
    function(few);
  }
}

// Runs train(settings, session), in a session where a budget is given; returns the exit code.
template <class Train>
int run(int argc, char** argv, Train&& train) {
  const Settings settings = parse(argc, argv);
  try {
    settle_vector_math();
    std::optional<outsize::Session> session;
    if (settings.budget_mib > 0) {
      session.emplace(outsize::SessionOptions{.budget = outsize::MiB(settings.budget_mib),
                                              .policy = settings.policy});
    }
    train(settings, session ? &*session : nullptr);
    if (session) report(session->stats());
  } catch (const c10::Error& error) {  // from an op; what() would list every frame
    std::fprintf(stderr, "%s\n", error.what_without_backtrace());
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace examples
