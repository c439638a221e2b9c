# zstd, which traces are compressed with. Debian's package for CMake has other names than other
# systems', so header and library are looked for themselves.
find_path(OUTSIZE_ZSTD_INCLUDE zstd.h)
find_library(OUTSIZE_ZSTD_LIBRARY zstd)
mark_as_advanced(OUTSIZE_ZSTD_INCLUDE OUTSIZE_ZSTD_LIBRARY)
if(NOT OUTSIZE_ZSTD_INCLUDE OR NOT OUTSIZE_ZSTD_LIBRARY)
  message(FATAL_ERROR "zstd not found, which traces are compressed with. "
                      "On Debian: apt-get install libzstd-dev")
endif()
