// Threads that read and write a range while it leaves and comes back, as NumPy views do: every read
// sees the right bytes, no write is lost, every guarded write is reported.
#include <atomic>
#include <random>
#include <thread>

#include "platforms/host/page_mover.h"
#include "platforms/host/page_mover_rig.h"

namespace outsize::host {
namespace {

using namespace std::chrono_literals;

// Stands in for the runtime: `residency` is its lock, and a thread of its own answers faults.
class Residency {
 public:
  explicit Residency(Mechanism mechanism)
      : rig(mechanism, [this](const Fault& fault) { rig.record(fault); }) {
    if (rig.available()) server_ = std::thread([this] { serve(); });
  }
  ~Residency() {
    stop_ = true;
    rig.record(Fault{nullptr, false});
    if (server_.joinable()) server_.join();
  }

  MoverRig rig;
  std::mutex lock;
  std::atomic<bool> guarded{false};
  std::atomic<int> guarded_writes{0};
  Bytes bytes = 0;

 private:
  void serve() {
    for (;;) {
      const Fault fault = rig.wait_fault();
      if (stop_) return;
      const std::lock_guard hold(lock);  // not while the range is out
      if (fault.write && guarded) {
        ++guarded_writes;
        guarded = false;
        EXPECT_TRUE(rig.mover().unguard(rig.at(0), bytes).ok());
      }
      rig.mover().resume(fault.address, kPageBytes);
    }
  }
  std::atomic<bool> stop_{false};
  std::thread server_;
};

class PageMoverStressTest : public testing::TestWithParam<Mechanism> {
 protected:
  void SetUp() override {
    state_ = std::make_unique<Residency>(GetParam());
    if (!state_->rig.available()) GTEST_SKIP() << state_->rig.why_not();
  }
  std::unique_ptr<Residency> state_;
};

INSTANTIATE_TEST_SUITE_P(, PageMoverStressTest, testing::ValuesIn(kAllMechanisms),
                         [](const auto& info) { return mechanism_name(info.param); });

constexpr auto kTime = 400ms;

// Half of every page belongs to the readers and never changes; words of the other half belong to
// one writer each.
TEST_P(PageMoverStressTest, ReadersAndWritersNeverSeeWrongBytes) {
  const unsigned seed = std::random_device{}();
  RecordProperty("seed", static_cast<int>(seed));
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  MoverRig& rig = state_->rig;
  PageMover& mover = rig.mover();
  const Bytes bytes = 2 * kChunkBytes + 7 * kPageBytes;
  state_->bytes = bytes;
  char* tensor = rig.at(0);
  char* pool = rig.at(8 * kChunkBytes);
  ASSERT_DONE(mover.populate(tensor, bytes));
  fill_pattern(tensor, bytes, 1);
  constexpr Bytes kWriters = 2;
  const Bytes pages = bytes / kPageBytes;
  auto word_at = [&](Bytes page, Bytes word) {
    return reinterpret_cast<std::atomic<std::uint64_t>*>(tensor + page * kPageBytes) + word;
  };
  for (Bytes page = 0; page < pages; ++page) {
    for (Bytes writer = 0; writer < kWriters; ++writer) *word_at(page, 256 + writer) = 0;
  }

  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned reader = 0; reader < 3; ++reader) {
    threads.emplace_back([&, reader] {
      std::mt19937 random(seed + reader);
      while (!stop) {
        const Bytes page = random() % pages;
        const Bytes word = random() % 256;
        if (word_at(page, word)->load(std::memory_order_relaxed) !=
            pattern(static_cast<std::uint64_t>(page * 512 + word), 1)) ++wrong;
        // Two cores: leave some to whoever moves the pages.
        if (random() % 64 == 0) std::this_thread::yield();
      }
    });
  }
  std::vector<std::vector<std::uint64_t>> counts(kWriters, std::vector<std::uint64_t>(static_cast<std::size_t>(pages)));
  for (Bytes writer = 0; writer < kWriters; ++writer) {
    threads.emplace_back([&, writer] {
      std::mt19937 random(seed + 100 + static_cast<unsigned>(writer));
      while (!stop) {
        const Bytes page = random() % pages;
        auto* word = word_at(page, 256 + writer);
        std::uint64_t& count = counts[static_cast<std::size_t>(writer)][static_cast<std::size_t>(page)];
        if (word->load(std::memory_order_relaxed) != count) ++wrong;
        word->store(++count, std::memory_order_relaxed);
        std::this_thread::sleep_for(20us);
      }
    });
  }

  std::mt19937 random(seed + 1000);
  // The copying kinds do not carry a range's bytes out, so here they save and restore them, which
  // is what writing to and reading from the spill file does.
  const bool carries = GetParam() == Mechanism::kUffdMove || GetParam() == Mechanism::kSignal;
  std::vector<char> saved(static_cast<std::size_t>(bytes));
  int rounds = 0;
  for (const auto end = std::chrono::steady_clock::now() + kTime; std::chrono::steady_clock::now() < end; ++rounds) {
    const bool guard = random() % 2 == 0;
    const std::lock_guard hold(state_->lock);
    if (!carries) {
      // The guard holds writers off while the bytes are copied: they wait for `lock`.
      state_->guarded = true;
      ASSERT_DONE(mover.guard(tensor, bytes));
      copy_words(saved.data(), tensor, bytes);
    }
    ASSERT_DONE(mover.move_out(tensor, pool, bytes));
    state_->guarded = false;
    if (!carries) copy_words(pool, saved.data(), bytes);
    if (random() % 3 == 0) std::this_thread::yield();
    state_->guarded = guard;
    ASSERT_DONE(mover.move_in(pool, tensor, bytes, guard));
    if (!carries) ASSERT_DONE(mover.populate(pool, bytes));
    if (!carries) ASSERT_DONE(mover.discard(pool, bytes));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(rounds, 0);
  for (Bytes page = 0; page < pages; ++page) {
    for (Bytes writer = 0; writer < kWriters; ++writer) {
      ASSERT_EQ(word_at(page, 256 + writer)->load(),
                counts[static_cast<std::size_t>(writer)][static_cast<std::size_t>(page)]) << "lost write";
    }
  }
}

// Raw pointers write as fast as they can; what arrives guarded at once is what left, byte for byte.
TEST_P(PageMoverStressTest, NoWriteSlipsInBeforeAGuardAtOnce) {
  MoverRig& rig = state_->rig;
  PageMover& mover = rig.mover();
  const Bytes bytes = kChunkBytes + 5 * kPageBytes;
  state_->bytes = bytes;
  char* tensor = rig.at(0);
  char* pool = rig.at(8 * kChunkBytes);
  ASSERT_DONE(mover.populate(tensor, bytes));
  std::atomic<bool> stop{false};
  std::vector<std::thread> writers;
  for (unsigned writer = 0; writer < 2; ++writer) {
    writers.emplace_back([&, writer] {
      std::mt19937 random(writer);
      for (std::uint64_t count = 0; !stop; ++count) {
        const Bytes page = random() % (bytes / kPageBytes);
        auto* word = reinterpret_cast<std::atomic<std::uint64_t>*>(tensor + page * kPageBytes) + writer;
        word->store(count, std::memory_order_relaxed);
      }
    });
  }
  const bool carries = GetParam() == Mechanism::kUffdMove || GetParam() == Mechanism::kSignal;
  std::vector<char> left(static_cast<std::size_t>(bytes)), came(left.size());
  int slipped = 0, rounds = 0;
  for (const auto end = std::chrono::steady_clock::now() + kTime; std::chrono::steady_clock::now() < end; ++rounds) {
    const std::lock_guard hold(state_->lock);
    ASSERT_DONE(mover.move_out(tensor, pool, bytes));
    copy_words(left.data(), pool, bytes);
    state_->guarded = true;
    ASSERT_DONE(mover.move_in(pool, tensor, bytes, true, true));
    copy_words(came.data(), tensor, bytes);
    slipped += left != came;
    if (!carries) ASSERT_DONE(mover.populate(pool, bytes));
    if (!carries) ASSERT_DONE(mover.discard(pool, bytes));
  }
  stop = true;
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(slipped, 0);
  EXPECT_GT(rounds, 0);
}

// With one writer at a time and one guard a write, the reports must equal the writes.
TEST_P(PageMoverStressTest, EveryWriteToAGuardedRangeIsReportedOnce) {
  MoverRig& rig = state_->rig;
  state_->bytes = kChunkBytes;
  ASSERT_DONE(rig.mover().populate(rig.at(0), kChunkBytes));
  constexpr int kWrites = 200;
  for (int i = 0; i < kWrites; ++i) {
    {
      const std::lock_guard hold(state_->lock);
      state_->guarded = true;
      ASSERT_DONE(rig.mover().guard(rig.at(0), kChunkBytes));
    }
    char* byte = rig.at(i * 7919 % kChunkBytes);
    (void)peek(byte);
    poke(byte, 1);
  }
  EXPECT_EQ(state_->guarded_writes, kWrites);
}

TEST_P(PageMoverStressTest, ManyMoreThreadsThanOneLookCollects) {
  // More than the service thread reads at once; for the signal path, more than it has slots for.
  constexpr int kThreads = 300;
  MoverRig& rig = state_->rig;
  state_->bytes = kThreads * kPageBytes;
  std::unique_lock hold(state_->lock);
  std::atomic<int> sum{0};
  std::vector<std::thread> touchers;
  for (int i = 0; i < kThreads; ++i) {
    touchers.emplace_back([&, i] { sum += peek(rig.at(i * kPageBytes)) + 1; });
  }
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(sum, 0);
  ASSERT_DONE(rig.mover().populate(rig.at(0), kThreads * kPageBytes));
  hold.unlock();
  for (std::thread& toucher : touchers) toucher.join();
  EXPECT_EQ(sum, kThreads);
}

}  // namespace
}  // namespace outsize::host
