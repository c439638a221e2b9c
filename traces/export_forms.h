// The forms that traces are exported to, event by event: the trace-event JSON that Perfetto and
// chrome://tracing read, and a memory timeline as CSV. Included by export.cpp alone.
#pragma once

#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/trace/trace_event.h"

namespace outsize::traces::forms {

using trace::Event;

// A JSON string. Bytes above 127 are names in UTF-8 and stay.
inline std::string quoted_json(std::string_view text) {
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') quoted += '\\';
    if (static_cast<unsigned char>(letter) >= 0x20) {
      quoted += letter;
      continue;
    }
    char escaped[16];
    std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(letter));
    quoted += escaped;
  }
  return quoted + "\"";
}

// A field of CSV (RFC 4180).
inline std::string quoted_csv(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return std::string(text);
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"') quoted += '"';
    quoted += letter;
  }
  return quoted + "\"";
}

// What both exports need of the run so far.
class Run {
 public:
  struct Birth {
    Bytes bytes = 0;
    SiteId site = 0;
    bool in_op = false;
  };

  void event(const Event& event) {
    std::vector<SiteId>& open = open_[event.thread];
    switch (event.kind) {
      case Event::Kind::kSiteName: names_[event.site] = event.text; break;
      case Event::Kind::kOpBegin: open.push_back(event.site); break;
      case Event::Kind::kOpEnd:
        if (!open.empty()) open.pop_back();
        break;
      case Event::Kind::kBirth:
        last_ = {event.bytes, open.empty() ? 0 : open.back(), !open.empty()};
        living_[event.storage] = last_;
        alive_ += event.bytes;
        break;
      case Event::Kind::kAdopt:
        living_[event.storage] = last_ = {event.bytes, 0, false};
        alive_ += event.bytes;
        break;
      case Event::Kind::kDeath: {
        const auto found = living_.find(event.storage);
        last_ = found == living_.end() ? Birth{} : found->second;
        if (found != living_.end()) living_.erase(found);
        alive_ -= last_.bytes;
        break;
      }
      default: break;
    }
  }
  std::string name(SiteId site) const {
    const auto found = names_.find(site);
    if (found != names_.end() && !found->second.empty()) return found->second;
    char text[32];
    std::snprintf(text, sizeof text, "site %016" PRIx64, site);
    return text;
  }
  bool in_op(ThreadId thread) const {
    const auto found = open_.find(thread);
    return found != open_.end() && !found->second.empty();
  }
  Bytes alive() const { return alive_; }
  const Birth& last() const { return last_; }  // the storage that was born or died just now

 private:
  std::map<ThreadId, std::vector<SiteId>> open_;
  std::map<SiteId, std::string> names_;
  std::unordered_map<trace::StorageId, Birth> living_;
  Birth last_;
  Bytes alive_ = 0;
};

// Times are microseconds there; three digits more keep the nanoseconds.
class Chrome {
 public:
  explicit Chrome(std::FILE* file) : file_(file) {
    std::fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
               "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"outsize\"}}", file_);
  }

  void event(const Event& event) {
    const bool ends_op = event.kind == Event::Kind::kOpEnd && run_.in_op(event.thread);
    run_.event(event);
    switch (event.kind) {
      case Event::Kind::kMeta: meta_ = event.text; break;
      case Event::Kind::kOpBegin: op_begin(event); break;
      case Event::Kind::kOpEnd:
        if (ends_op) line("E", event.thread, event.time, "");
        break;
      case Event::Kind::kBirth:
      case Event::Kind::kAdopt:
      case Event::Kind::kDeath:
        line("C", 0, event.time, ",\"name\":\"bytes alive\",\"args\":{\"bytes\":" + std::to_string(run_.alive()) + "}");
        break;
      case Event::Kind::kWait:
        line("X", event.thread, event.time - event.duration,
             ",\"cat\":\"wait\",\"name\":\"wait: " + std::string(to_string(event.cause)) + "\",\"dur\":" +
                 micros(event.duration));
        break;
      case Event::Kind::kStep: line("i", event.thread, event.time, ",\"s\":\"g\",\"name\":\"step\""); break;
      case Event::Kind::kRawAccess:
        line("i", event.thread, event.time, std::string(",\"s\":\"t\",\"name\":\"raw ") +
             (event.flag ? "write" : "read") + "\",\"args\":{\"storage\":" + std::to_string(event.storage) + "}");
        break;
      case Event::Kind::kSample: sample(event); break;
      default: break;
    }
  }

  void finish() { std::fprintf(file_, "\n],\"otherData\":{\"outsize\":%s}}\n", quoted_json(meta_).c_str()); }

 private:
  void op_begin(const Event& event) {
    std::string storages;
    for (const trace::Operand& operand : event.operands) {
      storages += storages.empty() ? "" : " ";
      storages += (operand.access == Access::kWrite ? "w" : "r") + std::to_string(operand.storage);
    }
    const char* category = (event.op_flags & trace::kInBackward) != 0 ? "backward" : "forward";
    line("B", event.thread, event.time, ",\"cat\":\"" + std::string(category) + "\",\"name\":" +
         quoted_json(run_.name(event.site)) + ",\"args\":{\"storages\":\"" + storages + "\"" +
         flags_of(event.op_flags) + "}");
  }
  static std::string flags_of(std::uint8_t flags) {
    std::string said;
    if ((flags & trace::kUsesRng) != 0) said += " random";
    if ((flags & trace::kCollective) != 0) said += " collective";
    if ((flags & trace::kPiece) != 0) said += " piece";
    return said.empty() ? said : ",\"flags\":\"" + said.substr(1) + "\"";
  }
  void sample(const Event& event) {
    std::string features;
    for (const trace::Feature& feature : event.features) {
      features += (features.empty() ? "" : ",") + quoted_json(feature.name) + ":[";
      for (std::size_t i = 0; i < feature.numbers.size(); ++i) {
        char number[32];
        std::snprintf(number, sizeof number, "%s%.17g", i == 0 ? "" : ",", feature.numbers[i]);
        features += std::isfinite(feature.numbers[i]) ? number : i == 0 ? "null" : ",null";
      }
      features += "]";
    }
    line("i", event.thread, event.time, ",\"s\":\"t\",\"name\":\"sample\",\"args\":{" + features + "}");
  }
  static std::string micros(Nanos time) {
    char text[40];
    std::snprintf(text, sizeof text, "%" PRId64 ".%03d", time / 1000, static_cast<int>(time % 1000));
    return text;
  }
  void line(const char* phase, ThreadId thread, Nanos time, const std::string& more) {
    std::fprintf(file_, ",\n{\"ph\":\"%s\",\"pid\":1,\"tid\":%" PRIu32 ",\"ts\":%s%s}", phase, thread,
                 micros(time < 0 ? 0 : time).c_str(), more.c_str());
  }

  std::FILE* file_;
  Run run_;
  std::string meta_;
};

class Memory {
 public:
  explicit Memory(std::FILE* file) : file_(file) {
    std::fputs("time_ns,alive_bytes,change_bytes,storage,birth_op\n", file_);
  }
  void event(const Event& event) {
    run_.event(event);
    const bool died = event.kind == Event::Kind::kDeath;
    if (!died && event.kind != Event::Kind::kBirth && event.kind != Event::Kind::kAdopt) return;
    const Bytes change = died ? -run_.last().bytes : run_.last().bytes;
    const std::string op = run_.last().in_op ? quoted_csv(run_.name(run_.last().site)) : "";
    std::fprintf(file_, "%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRIu64 ",%s\n", event.time, run_.alive(), change,
                 event.storage, op.c_str());
  }
  void finish() {}

 private:
  std::FILE* file_;
  Run run_;
};

}  // namespace outsize::traces::forms
