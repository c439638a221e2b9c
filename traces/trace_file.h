// A trace as a file: blocks of core/trace, compressed (zstd) and checksummed (xxHash), behind a header
// that says which version of the format follows. docs/TRACE.md has every byte.
//
// Used from the live driver, which records, and from the simulator and the command line, which read.
// Not thread-safe: one thread has a writer or a reader.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/base/result.h"
#include "core/trace/old_sites.h"
#include "core/trace/trace_decoder.h"
#include "core/trace/trace_encoder.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace outsize::traces {

inline constexpr std::size_t kHeaderBytes = 16;       // of the file
inline constexpr std::size_t kFrameBytes = 32;        // before each block
// zstd's levels; 0 stores blocks as they are. Higher ones gain little on blocks of small numbers.
inline constexpr int kLevel = 3;

// Asked now and then, so that a person can end the reading of a long trace.
using Cancelled = std::function<bool()>;

// kIo where the system says no, with its words; the path is in every message.
class FileWriter {
 public:
  // Makes the file, or empties it. It is readable up to the last block that was given, and is told as
  // cut off until close() has written the end.
  static Result<std::unique_ptr<FileWriter>> create(const std::string& path, int level = kLevel);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // The encoder that feeds this file. Its finish() ends the trace.
  trace::Encoder& encoder() { return encoder_; }

  // After the encoder's finish(): tells whether all bytes have reached the file.
  Status close();

  std::uint64_t file_bytes() const { return file_bytes_; }
  std::uint64_t block_bytes() const { return block_bytes_; }  // before compression

 private:
  FileWriter(std::string path, std::FILE* file, int level);
  Status block(std::string_view bytes, bool last);
  Status put(const void* bytes, std::size_t size);
  Error failed(const char* doing) const;

  std::string path_;
  std::FILE* file_ = nullptr;
  int level_ = kLevel;
  ZSTD_CCtx_s* context_ = nullptr;
  std::string packed_;
  std::uint32_t blocks_ = 0;
  std::uint64_t file_bytes_ = 0, block_bytes_ = 0;
  trace::Encoder encoder_;
};

class FileReader {
 public:
  // kInvalidArgument: no trace, or its header is damaged. kUnsupported: of a later version.
  // `cancelled` is asked before each block; true ends the reading with an error.
  static Result<std::unique_ptr<FileReader>> open(const std::string& path, Cancelled cancelled = nullptr);
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  // As Decoder::next, with the file's name in front of every message, and sites as the latest version has them. A trace that was cut off or
  // damaged gives what stands before that place first.
  Result<bool> next(trace::Event& event);
  // Shows every event that is left to `see`.
  template <class See>
  Status each(See see) {
    trace::Event event;
    for (;;) {
      const Result<bool> more = next(event);
      if (!more.ok()) return more.error();
      if (!more.value()) return {};
      see(event);
    }
  }

  const trace::Totals& totals() const { return decoder_.totals(); }
  std::uint64_t blocks() const { return decoder_.blocks(); }
  std::uint64_t file_bytes() const { return at_; }
  std::uint64_t block_bytes() const { return block_bytes_; }
  // What decision logs call the trace: a checksum of what has been read, in hexadecimal digits.
  std::string name() const;

 private:
  FileReader(std::string path, std::FILE* file, Cancelled cancelled);
  Status header();
  Result<bool> block(std::string& bytes);
  Result<bool> get(void* bytes, std::size_t size);  // false: the file ends before
  Status unpack(bool compressed, std::size_t size, std::string& bytes);
  Error damaged(const std::string& what) const;
  Error cut_off() const;

  std::string path_;
  std::FILE* file_ = nullptr;
  Cancelled cancelled_;
  ZSTD_DCtx_s* context_ = nullptr;
  std::string stored_;
  std::uint32_t blocks_ = 0;
  std::uint64_t at_ = 0, frame_at_ = 0, block_bytes_ = 0;
  std::uint64_t hash_ = 0;  // of the hashes of all blocks
  bool last_ = false;
  trace::Decoder decoder_;
  std::optional<trace::OldSites> old_sites_;  // where the trace is as old
};

}  // namespace outsize::traces
