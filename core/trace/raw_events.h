// What the live side writes down under the runtime's lock, and what becomes of it later on another
// thread. Under the lock there is time for one thing only: to put addresses and numbers into a row of
// records of one size. Which storages the addresses belong to, and how a trace says it, is worked out
// by the Translator, on a thread that nobody waits for.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/trace/trace_encoder.h"
#include "core/trace/trace_event.h"

namespace outsize::trace {

struct RawEvent {
  enum class Kind : std::uint8_t {
    kOpBegin,    // time, b: site, thread, flags: OpFlag. Its operands follow
    kPlace,      // b: GraphPlace, of the op before
    kOperand,    // a: address, b: bytes, flags: Access
    kOpEnd,      // time, thread
    kBirth,      // time, thread; then kRange
    kAdopt,      // time, thread, flags: file mapping; then kRange
    kRange,      // a: address, b: bytes; of the record before
    kDeath,      // time, b: address, thread
    kExpose,     // time, thread; then kRange. As the four below: every storage in the range
    kRawAccess,  // time, thread, flags: write; then kRange
    kPin,        // time, thread; then kRange
    kUnpin,      // time, thread; then kRange
    kHint,       // time, thread, flags: soon; then kRange
    kWait,       // time, b: nanoseconds, thread, flags: WaitCause
    kUntracked,  // time, thread, b: site; then kRange (bytes only)
    kStep,       // time, thread
    kText,       // time, b: number of the RawText beside the records, thread
  };
  std::uint64_t a = 0, b = 0;  // a: the time, where it is not said otherwise; of any clock that goes on
  ThreadId thread = 0;
  std::uint16_t unused = 0;
  std::uint8_t flags = 0;
  Kind kind = Kind::kStep;
};
static_assert(sizeof(RawEvent) == 24);

// What has no fixed size; rare, so it may take memory.
struct RawText {
  enum class Kind : std::uint8_t { kMeta, kSiteName, kSample };
  Kind kind = Kind::kMeta;
  SiteId site = 0;
  std::string text;
  std::vector<std::pair<std::string, std::vector<double>>> features;
};

// Records in the order of the lock, in batches. What an op begins with may be cut by the end of a
// batch.
class Translator {
 public:
  // Events go to `encoder`, with times since `start`.
  Translator(Encoder& encoder, Nanos start) : encoder_(encoder), start_(start) {}

  // The first error of the encoder or its sink.
  Status translate(std::span<const RawEvent> events, std::span<const RawText> texts);
  // After the last batch: the end record. `held_up`: Totals.
  Status finish(Nanos now, Nanos held_up);

  std::uint64_t foreign_operands() const { return foreign_; }
  std::size_t living() const { return living_.size(); }

 private:
  struct Living {
    std::uint64_t end = 0;
    StorageId storage = kNoStorage;
    std::uint32_t pins = 0;
  };
  // Operands are looked up by the million, and most of them begin where a storage begins that was just
  // looked up: it has one place here, by its address.
  struct Recent {
    std::uint64_t begin = 1, end = 0;
    StorageId storage = kNoStorage;
  };
  using LivingMap = std::map<std::uint64_t, Living>;  // by address

  Status record(const RawEvent& raw, std::span<const RawText> texts);
  Status flush();
  Status birth(std::uint64_t address, std::uint64_t bytes);
  Status death(std::uint64_t address);
  Status bury(LivingMap::iterator storage);
  Status of_range(std::uint64_t address, std::uint64_t bytes);
  Status text(const RawText& text);
  void operand(const RawEvent& raw);
  LivingMap::iterator first_in(std::uint64_t address);
  Recent& recent(std::uint64_t address) { return recent_[(address >> 6) % recent_.size()]; }
  void head(Event::Kind kind, const RawEvent& raw);

  Encoder& encoder_;
  Nanos start_;
  LivingMap living_;
  std::array<Recent, 4096> recent_;
  std::vector<Operand> operands_;
  Event event_;            // what is being put together
  bool op_open_ = false;   // event_ is an op whose operands may go on
  std::uint64_t foreign_ = 0;
};

}  // namespace outsize::trace
