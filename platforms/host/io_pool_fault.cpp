#include "platforms/host/io_pool_fault.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <thread>

namespace outsize::host {
namespace {

bool kind_of(const std::string& name, InjectedFault* fault) {
  using Kind = InjectedFault::Kind;
  struct Named {
    const char* name;
    Kind kind;
    int error;
  };
  constexpr Named kKinds[] = {{"EIO", Kind::kErrno, EIO}, {"ENOSPC", Kind::kErrno, ENOSPC},
                              {"SHORT", Kind::kShort, 0}, {"FLIP", Kind::kFlip, 0},
                              {"LATE", Kind::kLate, 0}, {"PARTS", Kind::kParts, 0}};
  for (const Named& known : kKinds) {
    if (name != known.name) continue;
    *fault = {known.kind, known.error, 0};
    return true;
  }
  return false;
}

}  // namespace

FaultPlan FaultPlan::parse(const std::string& text, bool* valid) {
  FaultPlan plan;
  plan.fault_ = {InjectedFault::Kind::kErrno, EIO, 0};
  *valid = true;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const auto equals = part.find('=');
    const std::string key = part.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : part.substr(equals + 1);
    if (key == "every" || key == "offset" || key == "late") {
      char* end = nullptr;
      const long long number = std::strtoll(value.c_str(), &end, 10);
      if (value.empty() || *end != '\0' || number < 0) *valid = false;
      (key == "every" ? plan.every_ : key == "offset" ? plan.offset_ : plan.late_) = number;
    } else if (key == "kind" && (value == "read" || value == "write")) {
      plan.reads_ = value == "read";
      plan.writes_ = value == "write";
    } else if (key == "error" && kind_of(value, &plan.fault_)) {
      continue;
    } else {
      *valid = false;
    }
  }
  if (plan.every_ <= 0) *valid = false;
  if (!*valid) plan.every_ = 0;
  return plan;
}

FaultPlan FaultPlan::from_environment() {
  const char* text = std::getenv("OUTSIZE_IO_FAULT");
  if (text == nullptr || *text == '\0') return {};
  bool valid = false;
  FaultPlan plan = parse(text, &valid);
  if (!valid) {
    std::fprintf(stderr,
                 "outsize: OUTSIZE_IO_FAULT=%s is not understood, no fault is injected. "
                 "Try every=3,offset=10,kind=read,error=EIO.\n", text);
  }
  return plan;
}

InjectedFault FaultPlan::next(IoRequest::Kind kind) {
  if (every_ == 0 || !(kind == IoRequest::Kind::kRead ? reads_ : writes_)) return {};
  fault_.number = ++count_;
  fault_.late = late_;
  return count_ > offset_ && (count_ - offset_) % every_ == 0 ? fault_ : InjectedFault{};
}

namespace {

// Changes one bit of what was just read or written.
Status flip(const IoRequest& request, std::int64_t number) {
  const Bytes byte = number * 7919 % request.bytes;
  if (request.kind == IoRequest::Kind::kRead) {
    static_cast<char*>(request.memory)[byte] ^= 1;
    return {};
  }
  void* page = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return transfer_error(request, request.offset, request.bytes, 0, errno);
  IoRequest on_disk = request;
  on_disk.memory = page;
  on_disk.offset = place(request, byte / kPageBytes * kPageBytes).offset;
  on_disk.pieces.clear();
  on_disk.kind = IoRequest::Kind::kRead;
  Status status = run_piece(on_disk, 0, kPageBytes);
  static_cast<char*>(page)[byte % kPageBytes] ^= 1;
  on_disk.kind = IoRequest::Kind::kWrite;
  if (status.ok()) status = run_piece(on_disk, 0, kPageBytes);
  munmap(page, kPageBytes);
  return status;
}

}  // namespace

Status run_injected(const IoRequest& request, const InjectedFault& fault, char* bounce) {
  switch (fault.kind) {
    case InjectedFault::Kind::kErrno:
      return transfer_error(request, request.offset, request.bytes, 0, fault.error);
    case InjectedFault::Kind::kFlip:
      if (Status status = run_piece(request, 0, request.bytes, bounce); !status) return status;
      return flip(request, fault.number);
    case InjectedFault::Kind::kShort: {
      const Bytes half = request.bytes / 2 / kPageBytes * kPageBytes;
      if (Status status = run_piece(request, 0, half, bounce); !status) return status;
      return transfer_error(request, place(request, half).offset, request.bytes - half, 0, 0);
    }
    case InjectedFault::Kind::kLate:
      std::this_thread::sleep_for(std::chrono::milliseconds(fault.late));
      break;
    case InjectedFault::Kind::kParts:
      return run_piece(request, 0, request.bytes, bounce, kPageBytes);
    case InjectedFault::Kind::kNone:
      break;
  }
  return run_piece(request, 0, request.bytes, bounce);
}

}  // namespace outsize::host
