// Reads a trace into one of the forms of export_forms.h.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "traces/export_forms.h"
#include "traces/report.h"

namespace outsize::traces {
namespace {

template <class Form>
Status run_export(FileReader& reader, std::FILE* file) {
  Form form(file);
  const Status fine = reader.each([&](const trace::Event& event) { form.event(event); });
  if (fine.ok()) form.finish();
  return fine;
}

}  // namespace

Status export_trace(const std::string& path, ExportFormat format, const std::string& to,
                    const Cancelled& cancelled) {
  auto reader = FileReader::open(path, cancelled);
  if (!reader) return reader.error();
  const auto cannot = [&to] {
    return Error{ErrorCode::kIo, to + " cannot be written: " + std::strerror(errno), "export",
                 "Free space there, or name another place."};
  };
  std::error_code ignored;  // what does not exist is not the same
  if (std::filesystem::equivalent(path, to, ignored)) {
    return Error{ErrorCode::kInvalidArgument, to + " is the trace itself", "export", "Name another file to write."};
  }
  std::FILE* file = std::fopen(to.c_str(), "we");
  if (file == nullptr) return cannot();
  const Status fine = format == ExportFormat::kChrome ? run_export<forms::Chrome>(**reader, file)
                                                      : run_export<forms::Memory>(**reader, file);
  const bool lost = std::ferror(file) != 0;
  if (std::fclose(file) == 0 && !lost && fine.ok()) return {};
  const Status why = fine.ok() ? Status(cannot()) : fine;
  // Half an export helps nobody; what is no file (a pipe, a terminal) stays.
  if (std::filesystem::is_regular_file(std::filesystem::symlink_status(to, ignored))) std::remove(to.c_str());
  return why;
}

}  // namespace outsize::traces
