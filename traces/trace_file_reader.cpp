#include <zstd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "traces/frame.h"
#include "traces/trace_file.h"

namespace outsize::traces {
namespace {

constexpr const char* kAgain = "Copy it again from where it was recorded, or record it again.";

}  // namespace

FileReader::FileReader(std::string path, std::FILE* file, Cancelled cancelled)
    : path_(std::move(path)), file_(file), cancelled_(std::move(cancelled)),
      decoder_([this](std::string& bytes) { return block(bytes); }) {}

FileReader::~FileReader() {
  if (file_ != nullptr) std::fclose(file_);
  ZSTD_freeDCtx(context_);
}

Error FileReader::damaged(const std::string& what) const {
  return {ErrorCode::kInvalidArgument, "the trace is damaged: " + what,
          "block " + std::to_string(blocks_) + ", at byte " + std::to_string(frame_at_) + " of the file", kAgain};
}

Error FileReader::cut_off() const {
  return {ErrorCode::kInvalidArgument,
          "the trace is cut off: the file ends at byte " + std::to_string(at_) + ", before its end record",
          "block " + std::to_string(blocks_),
          "The program that recorded it was killed, or the copy is not whole: copy or record it again."};
}

Result<bool> FileReader::get(void* bytes, std::size_t size) {
  const std::size_t got = std::fread(bytes, 1, size, file_);
  at_ += got;
  if (got == size) return true;
  if (std::ferror(file_) == 0) return false;
  return Error{ErrorCode::kIo, std::string("the trace cannot be read: ") + std::strerror(errno), "", ""};
}

Result<std::unique_ptr<FileReader>> FileReader::open(const std::string& path, Cancelled cancelled) {
  std::unique_ptr<FileReader> reader(
      new FileReader(path, std::fopen(path.c_str(), "rbe"), std::move(cancelled)));
  Status fine;
  if (reader->file_ == nullptr) {
    fine = Error{ErrorCode::kIo, std::string("the trace cannot be read: ") + std::strerror(errno), "", ""};
  } else {
    fine = reader->header();
  }
  if (fine.ok()) return reader;
  Error error = fine.error();
  error.what = path + ": " + error.what;
  return error;
}

Status FileReader::header() {
  HeaderBytes bytes{};
  Result<bool> whole = get(bytes.data(), bytes.size());
  if (!whole) return whole.error();
  if (at_ == 0) {
    return Error{ErrorCode::kInvalidArgument, "the file is empty", "byte 0", "Was it recorded to the end?"};
  }
  const std::string_view start(bytes.data(), std::min<std::size_t>(at_, kMagic.size()));
  if (start != kMagic.substr(0, start.size())) {
    return Error{ErrorCode::kInvalidArgument, "the file is no trace of outsize", "byte 0",
                 "Give it a file that outsize has recorded; DTR's logs are for `outsize simulate --simrd`."};
  }
  if (!*whole) return cut_off();
  std::uint32_t version = 0;
  if (!read_header(bytes, version)) return damaged("its header's checksum does not fit");
  if (version == 0 || version > trace::kFormatVersion) {
    return Error{ErrorCode::kUnsupported,
                 "the trace has version " + std::to_string(version) + " of the format, and this outsize reads " +
                     std::to_string(trace::kFormatVersion),
                 "byte 8", "Read it with the outsize that recorded it, or a later one."};
  }
  if (version < trace::kIdiomsSince) old_sites_.emplace();
  context_ = ZSTD_createDCtx();
  if (context_ != nullptr) return {};
  return Error{ErrorCode::kIo, "the trace cannot be read: the system is out of memory", "", ""};
}

Status FileReader::unpack(bool compressed, std::size_t size, std::string& bytes) {
  if (!compressed) {
    if (stored_.size() != size) return damaged("its block has another length than it says");
    bytes.swap(stored_);
    return {};
  }
  bytes.resize(size);
  const std::size_t got = ZSTD_decompressDCtx(context_, bytes.data(), size, stored_.data(), stored_.size());
  if (ZSTD_isError(got) != 0) return damaged(std::string("zstd says ") + ZSTD_getErrorName(got));
  if (got != size) return damaged("its block has another length than it says");
  return {};
}

Result<bool> FileReader::block(std::string& bytes) {
  frame_at_ = at_;
  if (cancelled_ && cancelled_()) return Error{ErrorCode::kIo, "the reading was interrupted", "", ""};
  FrameBytes head{};
  Result<bool> whole = get(head.data(), head.size());
  if (!whole) return whole.error();
  if (last_) {
    if (at_ == frame_at_) return false;
    return damaged("something follows its last block");
  }
  if (!*whole) return cut_off();
  Frame frame;
  if (!read_frame(head, frame)) return damaged("the checksum before the block does not fit");
  if (frame.number != blocks_) {
    return damaged("block " + std::to_string(frame.number) + " stands where block " + std::to_string(blocks_) +
                   " is expected");
  }
  if (frame.block_bytes > trace::kBlockMax || frame.stored_bytes > frame.block_bytes ||
      frame.flags > (kCompressed | kLast)) {
    return damaged("what stands before the block makes no sense");
  }
  stored_.resize(frame.stored_bytes);
  whole = get(stored_.data(), stored_.size());
  if (!whole) return whole.error();
  if (!*whole) return cut_off();
  if (hash_of(stored_) != frame.stored_hash) return damaged("the block's checksum does not fit");
  if (Status fine = unpack((frame.flags & kCompressed) != 0, frame.block_bytes, bytes); !fine) return fine.error();
  std::array<char, 16> hashes{};
  put_number(hashes.data(), hash_);
  put_number(&hashes[8], frame.stored_hash);
  hash_ = hash_of({hashes.data(), hashes.size()});
  last_ = (frame.flags & kLast) != 0;
  ++blocks_;
  block_bytes_ += bytes.size();
  return true;
}

std::string FileReader::name() const { return digits_of(hash_); }

Result<bool> FileReader::next(trace::Event& event) {
  Result<bool> more = decoder_.next(event);
  if (more.ok()) {
    if (old_sites_ && *more) old_sites_->renew(event);
    return more;
  }
  Error error = more.error();
  error.what = path_ + ": " + error.what;
  return error;
}

}  // namespace outsize::traces
