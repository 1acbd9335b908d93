#include "core/piece_reader.hpp"

#include "core/uring_reader.hpp"

namespace kith {
namespace {

class PreadReader final : public PieceReader {
 public:
  const char* name() const noexcept override { return "pread"; }
  void read(std::span<const Piece> pieces) override {
    for (const Piece& piece : pieces) piece.file->read(piece.offset, piece.to, piece.bytes);
  }
};

}  // namespace

std::unique_ptr<PieceReader> make_piece_reader() {
  if (PieceReader::way != PieceReader::Way::pread) {
    if (auto reader = make_uring_reader()) return reader;
  }
  return std::make_unique<PreadReader>();
}

}  // namespace kith
