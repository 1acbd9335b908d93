// Reads many pieces of files, several at once where the kernel can: by io_uring past the page cache, so that
// a cloud larger than memory neither waits for one request after the other nor drives everything else out of
// it. What the page cache holds is taken from there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/positioned_file.hpp"

namespace kith {

/// Some bytes of a file, and where they go.
struct Piece {
  const InputFile* file = nullptr;
  std::uint64_t offset = 0;
  void* to = nullptr;
  std::size_t bytes = 0;
};

class PieceReader {
 public:
  /// Tests choose: never io_uring, or io_uring for what the page cache holds as well.
  enum class Way : std::uint8_t { fitting, pread, uring };
  inline static std::atomic<Way> way{Way::fitting};

  PieceReader() = default;
  PieceReader(const PieceReader&) = delete;
  PieceReader& operator=(const PieceReader&) = delete;
  virtual ~PieceReader() = default;

  /// "io_uring" or "pread".
  virtual const char* name() const noexcept = 0;
  /// All of them; those that follow each other in a file, and here, are read together. By one thread at a
  /// time.
  /// @throws IoError
  virtual void read(std::span<const Piece> pieces) = 0;
  /// Bytes that came past the page cache so far.
  virtual std::uint64_t direct_bytes() const noexcept { return 0; }
};

/// One that uses io_uring where this build has it and the kernel lets it, for files that open_direct() has
/// worked for; else pread, one piece after the other.
std::unique_ptr<PieceReader> make_piece_reader();

}  // namespace kith
