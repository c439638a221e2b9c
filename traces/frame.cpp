#include "traces/frame.h"

// Header only: no library of it is linked, and none of its symbols can meet another copy's.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

namespace outsize::traces {
namespace {

template <class Number>
void put(char* to, Number value) {
  for (std::size_t i = 0; i < sizeof value; ++i) to[i] = static_cast<char>(value >> (8 * i));
}

template <class Number>
Number get(const char* from) {
  Number value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) {
    value |= static_cast<Number>(static_cast<unsigned char>(from[i])) << (8 * i);
  }
  return value;
}

}  // namespace

std::uint64_t hash_of(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

HeaderBytes header_bytes(std::uint32_t version) {
  HeaderBytes bytes{};
  std::copy(kMagic.begin(), kMagic.end(), bytes.begin());
  put(&bytes[8], version);
  put(&bytes[12], static_cast<std::uint32_t>(hash_of({bytes.data(), 12})));
  return bytes;
}

bool read_header(const HeaderBytes& bytes, std::uint32_t& version) {
  version = get<std::uint32_t>(&bytes[8]);
  return get<std::uint32_t>(&bytes[12]) == static_cast<std::uint32_t>(hash_of({bytes.data(), 12}));
}

FrameBytes frame_bytes(const Frame& frame) {
  FrameBytes bytes{};
  put(&bytes[0], frame.number);
  put(&bytes[4], frame.block_bytes);
  put(&bytes[8], frame.stored_bytes);
  put(&bytes[12], frame.flags);
  put(&bytes[16], frame.stored_hash);
  put(&bytes[24], hash_of({bytes.data(), 24}));
  return bytes;
}

bool read_frame(const FrameBytes& bytes, Frame& frame) {
  frame.number = get<std::uint32_t>(&bytes[0]);
  frame.block_bytes = get<std::uint32_t>(&bytes[4]);
  frame.stored_bytes = get<std::uint32_t>(&bytes[8]);
  frame.flags = get<std::uint32_t>(&bytes[12]);
  frame.stored_hash = get<std::uint64_t>(&bytes[16]);
  return get<std::uint64_t>(&bytes[24]) == hash_of({bytes.data(), 24});
}

}  // namespace outsize::traces
