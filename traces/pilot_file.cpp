#include "traces/pilot_file.h"

#include <zstd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "traces/frame.h"

namespace outsize::traces {
namespace {

constexpr std::string_view kPilotMagic{"\x89OZPM\r\n\x1a", 8};
constexpr std::size_t kHead = 48;
constexpr std::uint32_t kCardMax = 1U << 20, kModelMax = 1U << 28;
using Head = std::array<char, kHead>;
using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

Error failed(const std::string& path, const char* doing, const char* hint) {
  return {ErrorCode::kIo, "the pilot's model " + path + " cannot be " + doing + ": " + std::strerror(errno), "", hint};
}

Error damaged(const std::string& path, const char* what) {
  return {ErrorCode::kInvalidArgument, path + ": the pilot's model is damaged: " + what, "",
          "Copy it again, or train it again."};
}

Head head_of(std::string_view card, std::string_view model, std::string_view behind) {
  Head head{};
  std::memcpy(head.data(), kPilotMagic.data(), kPilotMagic.size());
  put_number(&head[8], kPilotFileVersion);
  put_number(&head[12], static_cast<std::uint32_t>(card.size()));
  put_number(&head[16], static_cast<std::uint32_t>(model.size()));
  put_number(&head[20], static_cast<std::uint32_t>(behind.size() - card.size()));
  put_number(&head[24], hash_of(model));
  put_number(&head[32], hash_of(behind));
  put_number(&head[40], hash_of({head.data(), 40}));
  return head;
}

bool put_all(std::FILE* file, std::string_view bytes) {
  return std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
}

// What stands behind the head, which says how much it is; one byte more where there is more.
bool get_all(std::FILE* file, std::size_t size, std::string& bytes) {
  bytes.resize(size + 1);
  bytes.resize(std::fread(bytes.data(), 1, bytes.size(), file));
  return std::ferror(file) == 0;
}

Status check_head(const std::string& path, const Head& head, std::size_t got) {
  if (got < kPilotMagic.size() || std::string_view(head.data(), kPilotMagic.size()) != kPilotMagic) {
    return Error{ErrorCode::kInvalidArgument, path + " is no model of the pilot", "",
                 "Give it a file that `outsize pilot train` wrote."};
  }
  if (got < kHead) return damaged(path, "it ends too early");
  if (get_number<std::uint64_t>(&head[40]) != hash_of({head.data(), 40})) {
    return damaged(path, "its header's checksum does not fit");
  }
  const auto version = get_number<std::uint32_t>(&head[8]);
  if (version == kPilotFileVersion) return {};
  return Error{ErrorCode::kUnsupported,
               path + ": the pilot's model has version " + std::to_string(version) + ", and this outsize reads " +
                   std::to_string(kPilotFileVersion),
               "", "Train it again with this outsize."};
}

Result<std::string> unpacked(const std::string& path, std::string_view stored, std::size_t size) {
  std::string model(size, '\0');
  const std::size_t got = ZSTD_decompress(model.data(), size, stored.data(), stored.size());
  if (ZSTD_isError(got) != 0 || got != size) return damaged(path, "it cannot be unpacked");
  return model;
}

}  // namespace

std::string model_name(std::string_view model) { return digits_of(hash_of(model)); }

Status write_pilot_file(const std::string& path, std::string_view card, std::string_view model) {
  constexpr const char* kHint = "Free space there, or name another place.";
  if (card.size() > kCardMax || model.size() > kModelMax) {
    return Error{ErrorCode::kInvalidArgument, "the pilot's model " + path + " would be too large", "", kHint};
  }
  std::string behind(card);
  behind.resize(card.size() + ZSTD_compressBound(model.size()));
  const std::size_t size = ZSTD_compress(behind.data() + card.size(), behind.size() - card.size(), model.data(),
                                         model.size(), ZSTD_CLEVEL_DEFAULT);
  if (ZSTD_isError(size) != 0) {
    errno = ENOMEM;
    return failed(path, "written", kHint);
  }
  behind.resize(card.size() + size);
  const Head head = head_of(card, model, behind);
  const std::string part = path + ".part";
  File file(std::fopen(part.c_str(), "wbe"), std::fclose);
  if (file == nullptr) return failed(path, "made", kHint);
  bool written = put_all(file.get(), {head.data(), head.size()}) && put_all(file.get(), behind);
  written = std::fclose(file.release()) == 0 && written;
  if (written && std::rename(part.c_str(), path.c_str()) == 0) return {};
  const Error error = failed(path, "written", kHint);
  std::remove(part.c_str());
  return error;
}

Result<PilotFile> read_pilot_file(const std::string& path) {
  constexpr const char* kHint = "Check that it exists and is a file.";
  const File file(std::fopen(path.c_str(), "rbe"), std::fclose);
  if (file == nullptr) return failed(path, "read", kHint);
  Head head{};
  const std::size_t got = std::fread(head.data(), 1, head.size(), file.get());
  if (std::ferror(file.get()) != 0) return failed(path, "read", kHint);
  if (Status status = check_head(path, head, got); !status) return status.error();
  const auto card = get_number<std::uint32_t>(&head[12]), model = get_number<std::uint32_t>(&head[16]),
             stored = get_number<std::uint32_t>(&head[20]);
  if (card > kCardMax || model > kModelMax || stored > ZSTD_compressBound(kModelMax)) {
    return damaged(path, "its header makes no sense");
  }
  std::string behind;
  if (!get_all(file.get(), std::size_t{card} + stored, behind)) return failed(path, "read", kHint);
  if (behind.size() < std::size_t{card} + stored) return damaged(path, "it ends too early");
  if (behind.size() > std::size_t{card} + stored) return damaged(path, "something follows its end");
  if (hash_of(behind) != get_number<std::uint64_t>(&head[32])) return damaged(path, "its checksum does not fit");
  auto whole = unpacked(path, std::string_view(behind).substr(card), model);
  if (!whole) return whole.error();
  PilotFile result{behind.substr(0, card), std::move(*whole), "", kHead + behind.size()};
  result.name = model_name(result.model);
  if (hash_of(result.model) != get_number<std::uint64_t>(&head[24])) return damaged(path, "its checksum does not fit");
  return result;
}

}  // namespace outsize::traces
