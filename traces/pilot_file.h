// What the policy `pilot` has learnt, as a file: the bytes of predictors/pilot/model.h, compressed (zstd) and
// checksummed (xxHash), behind a card: JSON that says where they come from.
//
//   bytes  what
//       8  magic
//       4  version of this container
//       4  bytes of the card
//       4  bytes of the model
//       4  of these as they are stored
//       8  XXH3 of the model, which decision logs name
//       8  XXH3 of card and model as they are stored
//       8  XXH3 of the bytes before
// then the card, then the model. Numbers are little-endian.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace outsize::traces {

inline constexpr std::uint32_t kPilotFileVersion = 1;

struct PilotFile {
  std::string card;
  std::string model;
  std::string name;  // of the model: its checksum in hexadecimal digits
  std::uint64_t file_bytes = 0;
};

// kIo where the system says no, with its words. A file that is there is replaced once all is written.
Status write_pilot_file(const std::string& path, std::string_view card, std::string_view model);
// kInvalidArgument: no such file, or damaged. kUnsupported: of another version.
Result<PilotFile> read_pilot_file(const std::string& path);
std::string model_name(std::string_view model);

}  // namespace outsize::traces
