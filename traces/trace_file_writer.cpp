#include <zstd.h>

#include <cerrno>
#include <cstring>

#include "traces/frame.h"
#include "traces/trace_file.h"

namespace outsize::traces {

FileWriter::FileWriter(std::string path, std::FILE* file, int level)
    : path_(std::move(path)), file_(file), level_(level),
      encoder_([this](std::string_view bytes, bool last) { return block(bytes, last); }) {}

FileWriter::~FileWriter() {
  if (file_ != nullptr) std::fclose(file_);
  ZSTD_freeCCtx(context_);
}

Error FileWriter::failed(const char* doing) const {
  return {ErrorCode::kIo, "the trace " + path_ + " cannot be " + doing + ": " + std::strerror(errno), "trace",
          "Free space there, or record to another place."};
}

Result<std::unique_ptr<FileWriter>> FileWriter::create(const std::string& path, int level) {
  std::unique_ptr<FileWriter> writer(new FileWriter(path, std::fopen(path.c_str(), "wbe"), level));
  if (writer->file_ == nullptr) return writer->failed("made");
  // A forked child that ends writes what its copy of a buffer holds: into our file, where there is one.
  std::setvbuf(writer->file_, nullptr, _IONBF, 0);
  if (level > 0) {
    writer->context_ = ZSTD_createCCtx();
    if (writer->context_ == nullptr) {
      errno = ENOMEM;
      return writer->failed("made");
    }
    ZSTD_CCtx_setParameter(writer->context_, ZSTD_c_compressionLevel, level);
  }
  const HeaderBytes header = header_bytes(trace::kFormatVersion);
  if (Status fine = writer->put(header.data(), header.size()); !fine) return fine.error();
  return writer;
}

Status FileWriter::put(const void* bytes, std::size_t size) {
  if (std::fwrite(bytes, 1, size, file_) != size) return failed("written");
  file_bytes_ += size;
  return {};
}

Status FileWriter::block(std::string_view bytes, bool last) {
  std::string_view stored = bytes;
  Frame frame;
  if (context_ != nullptr) {
    packed_.resize(ZSTD_compressBound(bytes.size()));
    const std::size_t size =
        ZSTD_compress2(context_, packed_.data(), packed_.size(), bytes.data(), bytes.size());
    if (ZSTD_isError(size) == 0 && size < bytes.size()) {
      stored = std::string_view(packed_).substr(0, size);
      frame.flags = kCompressed;
    }
  }
  frame.number = blocks_++;
  frame.block_bytes = static_cast<std::uint32_t>(bytes.size());
  frame.stored_bytes = static_cast<std::uint32_t>(stored.size());
  if (last) frame.flags |= kLast;
  frame.stored_hash = hash_of(stored);
  const FrameBytes head = frame_bytes(frame);
  if (Status fine = put(head.data(), head.size()); !fine) return fine;
  if (Status fine = put(stored.data(), stored.size()); !fine) return fine;
  block_bytes_ += bytes.size();
  return {};
}

Status FileWriter::close() {
  std::FILE* file = std::exchange(file_, nullptr);
  if (file != nullptr && std::fclose(file) != 0) return failed("written");
  return {};
}

}  // namespace outsize::traces
