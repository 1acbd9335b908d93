// Pieces that follow each other are a run. What the page cache has of a run's beginning is copied from there
// (preadv2 with RWF_NOWAIT); the rest is read in aligned blocks into buffers of the reader's own, several in
// flight, and copied to where it belongs. Whatever the kernel does not do here is done by pread, which also
// finds the words for what went wrong.
#include "core/uring_reader.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include <fmt/format.h>
#include <liburing.h>
#include <sys/uio.h>

#include "kith/error.hpp"

namespace kith {
namespace {

// 16 requests of 256 KiB keep the quickest disks busy; the buffers take 4 MiB.
constexpr unsigned depth = 16;
constexpr std::size_t block_bytes = std::size_t{256} << 10U;
/// What O_DIRECT wants of offsets, sizes and addresses: no disk wants more.
constexpr std::uint64_t alignment = 4096;
constexpr std::size_t most_vectors = 64;

// Bytes [begin, end) of a file, which go to these pieces.
struct Run {
  std::span<const Piece> pieces;
  std::uint64_t begin = 0, end = 0;

  const InputFile& file() const { return *pieces.front().file; }

  /// Calls use(to, bytes) for each place that bytes [from, to) of the file go to.
  template <class Use>
  void for_each(std::uint64_t from, std::uint64_t to, const Use& use) const {
    for (const Piece& piece : pieces) {
      const std::uint64_t first = std::max(from, piece.offset);
      const std::uint64_t last = std::min(to, piece.offset + piece.bytes);
      if (first < last) {
        use(static_cast<std::byte*>(piece.to) + (first - piece.offset),
            static_cast<std::size_t>(last - first));
      }
    }
  }
};

Run first_run(std::span<const Piece> pieces) {
  std::size_t count = 1;
  std::uint64_t end = pieces[0].offset + pieces[0].bytes;
  while (count < pieces.size() && count < most_vectors && pieces[count].file == pieces[0].file &&
         pieces[count].offset == end) {
    end += pieces[count++].bytes;
  }
  return {pieces.first(count), pieces[0].offset, end};
}

class UringReader final : public PieceReader {
 public:
  explicit UringReader(const io_uring& ring) : ring_(ring) {
    for (unsigned i = 0; i < depth; ++i) idle_.push_back(i);
  }
  ~UringReader() override {
    io_uring_queue_exit(&ring_);
    if (idle_.size() == depth) return;
    [[maybe_unused]] const std::byte* const left = buffers_.release();  // nobody knows who writes there
  }

  const char* name() const noexcept override { return "io_uring"; }
  std::uint64_t direct_bytes() const noexcept override { return direct_bytes_; }

  void read(std::span<const Piece> pieces) override {
    // The kernel must not write into memory that its owner has left.
    const Finally finally{*this};
    while (!pieces.empty()) {
      const Run run = first_run(pieces);
      pieces = pieces.subspan(run.pieces.size());
      const std::uint64_t at = run.begin + (way == Way::uring ? 0 : copy_cached(run));
      if (run.file().direct() < 0) {
        read_plainly(run, at, run.end);
        continue;
      }
      for (std::uint64_t from = at; from < run.end;) {
        const std::uint64_t to = std::min(run.end, from / alignment * alignment + block_bytes);
        start(run, from, to);
        from = to;
      }
    }
    while (idle_.size() < depth) finish_one();
  }

 private:
  // What is read into a buffer: [from, to) of a run, and what stands around it in aligned blocks.
  struct Request {
    Run run;
    std::uint64_t from = 0, to = 0;
  };
  struct Finally {
    UringReader& reader;
    ~Finally() { reader.wait_for_all(); }
  };
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };

  std::byte* buffer(unsigned request) {
    if (!buffers_) {
      buffers_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, depth * block_bytes)));
      if (!buffers_) throw std::bad_alloc();
    }
    return buffers_.get() + request * block_bytes;
  }

  static void read_plainly(const Run& run, std::uint64_t from, std::uint64_t to) {
    run.for_each(from, to, [&](std::byte* at, std::size_t bytes) {
      run.file().read(from, at, bytes);
      from += bytes;
    });
  }

  // @return bytes from the run's beginning on that were in the page cache. Whoever asks for more than is
  // there has the kernel begin to read all of that into it (Linux 5.18), beside what is read past it here: so
  // a page is asked for first, and then no more than a block at a time.
  static std::uint64_t copy_cached(const Run& run) {
    std::uint64_t done = 0;
    while (run.begin + done < run.end) {
      iovec vectors[most_vectors];
      int count = 0;
      const std::uint64_t from = run.begin + done;
      const std::uint64_t to = std::min(run.end, from + (done == 0 ? alignment : block_bytes));
      run.for_each(from, to, [&](std::byte* at, std::size_t bytes) { vectors[count++] = {at, bytes}; });
      const ssize_t some = ::preadv2(run.file().descriptor(), vectors, count,
                                     static_cast<off_t>(run.begin + done), RWF_NOWAIT);
      if (some <= 0) break;
      done += static_cast<std::uint64_t>(some);
    }
    return done;
  }

  void start(const Run& run, std::uint64_t from, std::uint64_t to) {
    if (idle_.empty()) finish_one();
    const unsigned number = idle_.back();
    std::byte* const into = buffer(number);
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) return read_plainly(run, from, to);
    const std::uint64_t begin = from / alignment * alignment;
    const std::uint64_t end = (to + alignment - 1) / alignment * alignment;
    io_uring_prep_read(entry, run.file().direct(), into, static_cast<unsigned>(end - begin), begin);
    entry->user_data = number;  // what liburing 2.2 calls io_uring_sqe_set_data64
    requests_[number] = {run, from, to};
    idle_.pop_back();
    (void)io_uring_submit(&ring_);  // what is not taken now is taken with the next, or by wait_for_one()
  }

  // The request that is done next, or -errno where the kernel does not wait.
  int wait_for_one(int& result) noexcept {
    io_uring_cqe* done = nullptr;
    while (io_uring_peek_cqe(&ring_, &done) != 0) {
      const int error = io_uring_submit_and_wait(&ring_, 1);
      if (error < 0 && error != -EINTR) return error;
    }
    const auto number = static_cast<int>(done->user_data);
    result = done->res;
    io_uring_cqe_seen(&ring_, done);
    idle_.push_back(static_cast<unsigned>(number));
    return number;
  }

  void finish_one() {
    int result = 0;
    const int number = wait_for_one(result);
    if (number < 0) {
      throw IoError(
          fmt::format("waiting for io_uring failed: {}; run a Kith that was built with "
                      "KITH_URING=OFF, and tell us",
                      std::strerror(-number)));
    }
    const Request& request = requests_[number];
    const std::uint64_t begin = request.from / alignment * alignment;
    if (result < 0 || begin + static_cast<std::uint64_t>(result) < request.to) {
      read_plainly(request.run, request.from, request.to);
      return;
    }
    const std::byte* from = buffer(static_cast<unsigned>(number)) + (request.from - begin);
    request.run.for_each(request.from, request.to, [&](std::byte* to, std::size_t bytes) {
      std::memcpy(to, from, bytes);
      from += bytes;
    });
    direct_bytes_ += request.to - request.from;
  }

  void wait_for_all() noexcept {
    int ignored = 0;
    while (idle_.size() < depth) {
      if (wait_for_one(ignored) < 0) return;
    }
  }

  io_uring ring_;
  std::unique_ptr<std::byte, Free> buffers_;
  Request requests_[depth];
  std::vector<unsigned> idle_;  // of all requests; reserved once, so that wait_for_all() takes no memory
  std::uint64_t direct_bytes_ = 0;
};

}  // namespace

std::unique_ptr<PieceReader> make_uring_reader() {
  io_uring ring;
  if (io_uring_queue_init(depth, &ring, 0) < 0) return nullptr;
  return std::make_unique<UringReader>(ring);
}

}  // namespace kith
