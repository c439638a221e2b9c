// Says whether a trace makes sense: that it can be read is the decoder's word, that it can be
// believed is the validator's. It keeps its own accounts and shares no code with encoder and decoder.
//
// Memory: a few words for each storage that lives and each op that runs.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/trace/trace_event.h"

namespace outsize::trace {

struct Problem {
  std::uint64_t event = 0;  // its number, from 0
  std::string what;         // a sentence
};

class Validator {
 public:
  static constexpr std::size_t kProblemsMax = 100;  // kept; the rest is counted

  // Every event in turn, the end too.
  void event(const Event& event);
  // After the last event. `totals` are what the trace says of itself (Decoder::totals).
  void finish(const Totals& totals);

  const std::vector<Problem>& problems() const { return problems_; }
  std::uint64_t found() const { return found_; }

 private:
  struct Living {
    Bytes bytes = 0;
    std::uint64_t pins = 0;
  };
  void problem(std::string what);
  Living* living(StorageId storage, const char* doing);
  void time(const Event& event);
  void op_begin(const Event& event);
  void op_end(const Event& event);
  void birth(const Event& event);
  void of_storage(const Event& event);
  void compare(const char* what, std::uint64_t told, std::uint64_t counted);

  std::vector<Problem> problems_;
  std::uint64_t found_ = 0;
  std::uint64_t events_ = 0, ops_ = 0, steps_ = 0, deaths_ = 0;
  std::uint64_t born_bytes_ = 0;
  StorageId next_ = 0;
  Nanos latest_ = 0;
  bool ended_ = false;
  std::unordered_map<StorageId, Living> living_;
  std::map<ThreadId, std::uint64_t> open_;  // ops begun and not ended
};

}  // namespace outsize::trace
