#include "traces/frame.h"

// Header only: no library of it is linked, and none of its symbols can meet another copy's.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdio>

namespace outsize::traces {
std::uint64_t hash_of(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::string digits_of(std::uint64_t hash) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash));
  return text.data();
}

HeaderBytes header_bytes(std::uint32_t version) {
  HeaderBytes bytes{};
  std::copy(kMagic.begin(), kMagic.end(), bytes.begin());
  put_number(&bytes[8], version);
  put_number(&bytes[12], static_cast<std::uint32_t>(hash_of({bytes.data(), 12})));
  return bytes;
}

bool read_header(const HeaderBytes& bytes, std::uint32_t& version) {
  version = get_number<std::uint32_t>(&bytes[8]);
  return get_number<std::uint32_t>(&bytes[12]) == static_cast<std::uint32_t>(hash_of({bytes.data(), 12}));
}

FrameBytes frame_bytes(const Frame& frame) {
  FrameBytes bytes{};
  put_number(&bytes[0], frame.number);
  put_number(&bytes[4], frame.block_bytes);
  put_number(&bytes[8], frame.stored_bytes);
  put_number(&bytes[12], frame.flags);
  put_number(&bytes[16], frame.stored_hash);
  put_number(&bytes[24], hash_of({bytes.data(), 24}));
  return bytes;
}

bool read_frame(const FrameBytes& bytes, Frame& frame) {
  frame.number = get_number<std::uint32_t>(&bytes[0]);
  frame.block_bytes = get_number<std::uint32_t>(&bytes[4]);
  frame.stored_bytes = get_number<std::uint32_t>(&bytes[8]);
  frame.flags = get_number<std::uint32_t>(&bytes[12]);
  frame.stored_hash = get_number<std::uint64_t>(&bytes[16]);
  return get_number<std::uint64_t>(&bytes[24]) == hash_of({bytes.data(), 24});
}

}  // namespace outsize::traces
