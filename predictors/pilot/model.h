// A saved model: what the pilot has learnt, as bytes that a later run begins with. The network (network.h), what the
// chooser knows of its choices (chooser.h), which names features of samples have, and how long plans were. What is of one
// run is not in it: extents, and what lives. What the chooser knows without names is of use to other networks too.
//
// Numbers are LEB128 varints, floating point numbers their 32 bits, little-endian; tables stand in an order that depends on
// what was learnt alone, so that the same learning gives the same bytes. Files of it: traces/pilot_file.h.
//
// Whatever bytes are read, the tables that come of them keep the promises that their owners rely on, or there is an
// error that says what is wrong and at which byte.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/idioms.h"
#include "core/base/types.h"

namespace outsize::pilot {

// Of these bytes. A reader refuses every other one; so it does where names in traces have changed since.
inline constexpr std::uint64_t kModelVersion = 8;

class ModelWriter {
 public:
  void number(std::uint64_t value);
  void real(float value);
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// After what is wrong everything reads as nothing, so that callers ask once, at a table's end.
class ModelReader {
 public:
  explicit ModelReader(std::string_view bytes) : bytes_(bytes) {}
  bool ok() const { return wrong_ == nullptr; }
  // `what` cannot be: the first of these is told.
  void refuse(const char* what) {
    if (wrong_ == nullptr) wrong_ = what;
  }
  Error error() const;
  // At most `most`, else `what` is wrong.
  std::uint64_t number(std::uint64_t most, const char* what);
  std::uint64_t any() { return number(UINT64_MAX, "a number"); }
  std::uint32_t id(std::size_t below, const char* what);
  bool flag(const char* what) { return number(1, what) == 1; }
  // Of rows that follow, each of a byte at least: no more than there can be is made room for.
  std::size_t count(std::size_t most, const char* what);
  float real(float least, float most, const char* what);
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
  const char* wrong_ = nullptr;
};

// Bounds of what a plan adds up, so that no sum overflows, whatever a model says: of an op's time, and of its bytes.
inline constexpr Nanos kOpTimeMax = Nanos{1} << 44;
inline constexpr Bytes kOpBytesMax = Bytes{1} << 44;

struct ModelFacts {
  std::size_t nodes = 0, things = 0, classes = 0, contexts = 0, kinds = 0, features = 0;
  std::uint32_t plan_ops = 0;
  BaseType base = BaseType::kPlain;
  std::array<std::uint64_t, kIdioms> idioms{};  // of all nodes
};
// kInvalidArgument: it is damaged; kUnsupported: of another version.
Result<ModelFacts> model_facts(std::string_view model);

}  // namespace outsize::pilot
