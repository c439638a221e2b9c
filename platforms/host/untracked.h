// Bytes that the process holds in RAM and that are no tensor of ours: scratch of kernels that never
// passes PyTorch's allocator (top-k, MKL), Python objects, other libraries. Seen from outside, by
// looking at the process's resident size every few milliseconds: who runs while it rises is named.
//
// It also says how many bytes of tensors go with a process budget: what is held now, or
// what will be once running ops have taken the scratch they are known to take, must fit beside them.
//
// Not thread-safe: the runtime calls it under its lock. A look costs O(running threads).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/types.h"
#include "core/trace/trace_event.h"

namespace outsize::host {

struct Untracked {
  SiteId site = 0;  // 0: while no op ran
  Bytes bytes = 0;  // by which the process grew at most during one run of it
};

class UntrackedLedger {
 public:
  static constexpr Bytes kNoise = 4 * kMiB;  // smaller rises are not looked at
  static constexpr std::size_t kSitesMax = 1U << 12;  // where shapes never recur there is no end of them

  struct Running {
    ThreadId thread = 0;
    SiteId site = 0;
    std::uint64_t serial = 0;  // tells one run of an op from the next
  };

  // Told of what each run of an op, or the time between two, has taken, once it is over: the thread that
  // ran it (trace::kUnknownThread: none did), its site and so many bytes. Or nobody is.
  using Risen = std::function<void(ThreadId, SiteId, Bytes)>;
  void tell(Risen risen) { risen_ = std::move(risen); }

  // One look: `outside` is what the process holds beside tensors.
  void look(Bytes outside, std::span<const Running> running);
  // The most that runs of this op site have taken and given back so far. What stayed is no scratch.
  Bytes seen(SiteId site) const;
  // Whether it may be among the largest.
  bool names(SiteId site) const { return rises_.contains(site); }

  // This thread's op is about to take so many bytes, until it ends.
  void expect(ThreadId thread, Bytes bytes);
  void ended(ThreadId thread);

  // Bytes of tensors that fit into a process of `whole` bytes now. May be negative.
  Bytes tensors_in(Bytes whole) const;
  // The size to name of a process that holds so many bytes of tensors beside what it holds now, with
  // some to spare, for what is held changes by the millisecond; in whole MiB.
  Bytes whole_for(Bytes tensors) const;
  Bytes outside() const { return outside_; }
  Bytes expected() const;  // by all running ops
  Bytes coming() const { return level() - outside_; }  // what they have not taken yet
  // What is kept free for page tables and for what grows between two looks.
  static Bytes margin(Bytes whole) { return 16 * kMiB + whole / 64; }
  // The largest first; ties by site.
  std::vector<Untracked> largest(std::size_t most) const;

 private:
  Bytes level() const;  // what is held, or will be when running ops have their scratch

  struct Run {
    SiteId site = 0;
    std::uint64_t serial = 0;
    Bytes base = 0;  // least seen since just before it began
    Bytes peak = 0;  // most seen
    Bytes rise = 0;  // most seen above the least before it
    bool over = true;
  };
  struct Expecting {
    ThreadId thread = 0;
    Bytes base = 0, bytes = 0;
  };

  struct Rise {
    Bytes most = 0, scratch = 0;
  };

  void note(Run& run, Bytes outside);
  void forget_smaller_half();
  void end(ThreadId thread, Run& run, Bytes outside);
  void tell_of(ThreadId thread, const Run& run) const;

  std::unordered_map<SiteId, Rise> rises_;
  std::vector<Run> runs_;   // by thread
  Run between_;             // the time since the last op
  std::vector<Expecting> expecting_;
  Risen risen_;
  bool looked_ = false, op_ran_ = true;
  Bytes outside_ = 0;
};

}  // namespace outsize::host
