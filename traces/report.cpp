#include "traces/report.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace outsize::traces {
namespace {

using trace::Event;

// The accounts of a summary, event by event.
class Accounts {
 public:
  void event(const Event& event);
  Summary finish(const FileReader& reader);

 private:
  struct Open {
    SiteId site = 0;
    Nanos begin = 0, inner = 0;  // inner: of the ops inside it
  };
  struct Site {
    std::string name;
    std::uint64_t ops = 0;
    Nanos self = 0;
  };

  void op_end(const Event& event);
  void birth(const Event& event);
  void death(const Event& event);

  Summary summary_;
  std::map<ThreadId, std::vector<Open>> open_;
  std::map<SiteId, Site> sites_;
  std::unordered_map<trace::StorageId, Bytes> living_;
};

void Accounts::op_end(const Event& event) {
  std::vector<Open>& open = open_[event.thread];
  if (open.empty()) return;  // the validator tells
  const Open op = open.back();
  open.pop_back();
  const Nanos took = event.time - op.begin;
  Site& site = sites_[op.site];
  ++site.ops;
  site.self += took - op.inner;
  if (!open.empty()) open.back().inner += took;
}

void Accounts::birth(const Event& event) {
  living_[event.storage] = event.bytes;
  summary_.alive_bytes += event.bytes;
  if (summary_.alive_bytes <= summary_.peak_bytes) return;
  summary_.peak_bytes = summary_.alive_bytes;
  summary_.peak_time = event.time;
}

void Accounts::death(const Event& event) {
  const auto found = living_.find(event.storage);
  if (found == living_.end()) return;
  summary_.alive_bytes -= found->second;
  living_.erase(found);
}

void Accounts::event(const Event& event) {
  summary_.duration = event.time;
  switch (event.kind) {
    case Event::Kind::kMeta:
      if (summary_.meta.empty()) summary_.meta = event.text;
      break;
    case Event::Kind::kSiteName: sites_[event.site].name = event.text; break;
    case Event::Kind::kOpBegin: open_[event.thread].push_back({event.site, event.time, 0}); break;
    case Event::Kind::kOpEnd: op_end(event); break;
    case Event::Kind::kAdopt: ++summary_.adoptions; [[fallthrough]];
    case Event::Kind::kBirth: birth(event); break;
    case Event::Kind::kDeath: death(event); break;
    case Event::Kind::kRawAccess: ++summary_.raw_accesses; break;
    case Event::Kind::kSample: ++summary_.samples; break;
    case Event::Kind::kWait: {
      const auto cause = static_cast<std::size_t>(event.cause);
      if (cause < summary_.waited.size()) summary_.waited[cause] += event.duration;
      break;
    }
    default: break;
  }
}

Summary Accounts::finish(const FileReader& reader) {
  summary_.totals = reader.totals();
  summary_.file_bytes = reader.file_bytes();
  summary_.block_bytes = reader.block_bytes();
  summary_.blocks = reader.blocks();
  summary_.threads = open_.size();
  for (const auto& [id, site] : sites_) {
    if (site.ops == 0) continue;
    ++summary_.sites;
    summary_.longest.push_back({id, site.name, site.ops, site.self});
  }
  std::ranges::sort(summary_.longest, [](const SiteTime& a, const SiteTime& b) {
    return a.self != b.self ? a.self > b.self : a.site < b.site;
  });
  if (summary_.longest.size() > kLongestMax) summary_.longest.resize(kLongestMax);
  return std::move(summary_);
}

}  // namespace

Result<Summary> summarize(const std::string& path, const Cancelled& cancelled) {
  auto reader = FileReader::open(path, cancelled);
  if (!reader) return reader.error();
  Accounts accounts;
  if (Status fine = (*reader)->each([&](const Event& event) { accounts.event(event); }); !fine) return fine.error();
  return accounts.finish(**reader);
}

Result<Verdict> validate(const std::string& path, const Cancelled& cancelled) {
  auto reader = FileReader::open(path, cancelled);
  if (!reader) return reader.error();
  trace::Validator validator;
  if (Status fine = (*reader)->each([&](const Event& event) { validator.event(event); }); !fine) return fine.error();
  validator.finish((*reader)->totals());
  return Verdict{validator.problems(), validator.found(), (*reader)->totals().events};
}

}  // namespace outsize::traces
