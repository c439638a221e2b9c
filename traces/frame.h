// The bytes around each block of a trace file: little-endian numbers and checksums.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "traces/trace_file.h"

namespace outsize::traces {

template <class Number>
void put_number(char* to, Number value) {
  for (std::size_t i = 0; i < sizeof value; ++i) to[i] = static_cast<char>(value >> (8 * i));
}

template <class Number>
Number get_number(const char* from) {
  Number value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) {
    value |= static_cast<Number>(static_cast<unsigned char>(from[i])) << (8 * i);
  }
  return value;
}

// Its first byte is no letter and its last two are a line end, so that what treats a trace as text
// spoils it at once.
inline constexpr std::string_view kMagic{"\x89OZTR\r\n\x1a", 8};

inline constexpr std::uint32_t kCompressed = 1, kLast = 2;  // Frame::flags

struct Frame {
  std::uint32_t number = 0;        // of the block, from 0
  std::uint32_t block_bytes = 0;   // unpacked
  std::uint32_t stored_bytes = 0;  // in the file, behind the frame
  std::uint32_t flags = 0;
  std::uint64_t stored_hash = 0;
};

using HeaderBytes = std::array<char, kHeaderBytes>;
using FrameBytes = std::array<char, kFrameBytes>;

std::uint64_t hash_of(std::string_view bytes);
// In hexadecimal digits.
std::string digits_of(std::uint64_t hash);
HeaderBytes header_bytes(std::uint32_t version);
FrameBytes frame_bytes(const Frame& frame);
// False where its own checksum does not fit.
bool read_header(const HeaderBytes& bytes, std::uint32_t& version);
bool read_frame(const FrameBytes& bytes, Frame& frame);

}  // namespace outsize::traces
