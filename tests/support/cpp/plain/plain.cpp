#include <outsize/outsize.h>

#include <cstdio>

int main() {
  outsize::Session session({.budget = outsize::MiB(64)});
  session.step();
  const outsize::SessionStats stats = session.stats();
  std::printf("%lld bytes, %lld step, %s\n", static_cast<long long>(stats.budget),
              static_cast<long long>(stats.steps), stats.policy.c_str());
  return 0;
}
