#include "io/npy_header.hpp"

#include <limits>

#include "core/plural.hpp"
#include "io/bytes.hpp"

namespace kith::io {
namespace {

// The few Python literals a header holds; anything else is an error, never a guess.
class DictParser {
 public:
  DictParser(const Source& source, std::string_view text) : source_(source), text_(text) {}

  void parse(NpyHeader& header) {
    bool descr = false;
    bool order = false;
    bool shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr" && !descr) {
        if (peek() == '[') {
          throw bad_file(source_, "is a structured array; Kith reads plain ones; save one field of it");
        }
        header.descr = string();
        descr = true;
      } else if (key == "fortran_order" && !order) {
        header.fortran = boolean();
        order = true;
      } else if (key == "shape" && !shape) {
        header.shape = tuple();
        shape = true;
      } else {
        throw corrupt();
      }
      if (!accept(',') && peek() != '}') throw corrupt();
    }
    if (!descr || !order || !shape || !rest_is_blank()) throw corrupt();
  }

 private:
  IoError corrupt() const {
    return bad_file(source_,
                    "is corrupt: its header is not the dict of descr, fortran_order and shape that npy "
                    "files have");
  }
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  char peek() {
    skip_blanks();
    if (at_ == text_.size()) throw corrupt();
    return text_[at_];
  }
  bool accept(char wanted) {
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted)) throw corrupt();
  }
  std::string string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') throw corrupt();
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) throw corrupt();
    std::string value(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return value;
  }
  bool boolean() {
    skip_blanks();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    }
    throw corrupt();
  }
  std::vector<std::uint64_t> tuple() {
    std::vector<std::uint64_t> values;
    expect('(');
    while (!accept(')')) {
      values.push_back(integer());
      if (!accept(',') && peek() != ')') throw corrupt();
    }
    return values;
  }
  std::uint64_t integer() {
    if (peek() == '-') {
      throw bad_file(source_, "is corrupt: its header claims a negative size");
    }
    std::uint64_t value = 0;
    std::size_t digits = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_, ++digits) {
      const auto digit = static_cast<std::uint64_t>(text_[at_] - '0');
      if (value > (std::uint64_t{1} << 59U)) {
        throw bad_file(source_, "is corrupt: its header claims a size above 2^63; the file has {} bytes",
                       source_.size());
      }
      value = 10 * value + digit;
    }
    if (digits == 0) throw corrupt();
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote long integers so
    return value;
  }
  bool rest_is_blank() {
    skip_blanks();
    return at_ == text_.size();
  }

  const Source& source_;
  std::string_view text_;
  std::size_t at_ = 0;
};

void parse_descr(const Source& source, NpyHeader& header, bool flags) {
  std::string_view rest = header.descr;
  if (rest == "bfloat16") {
    header.kind = 'V';
    header.element = 2;
    return;
  }
  const auto refuse = [&] {
    return bad_file(
        source,
        "holds elements of type '{}'; Kith reads f2, f4, f8, i1, u1 and bfloat16 (and i4, i8, u4, u8 "
        "as indices); convert with x.astype('float32')",
        header.descr);
  };
  if (rest.size() == 3 && std::string_view("<>|=").find(rest[0]) != std::string_view::npos) {
    header.swap = rest[0] == '>';
    rest.remove_prefix(1);
  }
  if (rest.size() != 2 || std::string_view("fiuVb").find(rest[0]) == std::string_view::npos ||
      std::string_view("1248").find(rest[1]) == std::string_view::npos) {
    throw refuse();
  }
  header.kind = rest[0];
  header.element = static_cast<std::uint64_t>(rest[1] - '0');
  if ((header.kind == 'f' && header.element == 1) || (header.kind == 'V' && header.element != 2) ||
      (header.kind == 'b' && (header.element != 1 || !flags))) {
    throw refuse();
  }
}

}  // namespace

NpyHeader parse_npy_header(const Source& source, bool flags) {
  if (!source.starts_with(npy_magic)) {
    throw bad_file(source, "{}",
                   source.size() == 0 ? "is empty" : "is not npy: it does not start with \\x93NUMPY");
  }
  const std::byte* at = source.bytes.data();
  if (source.size() < 12) throw bad_file(source, "is truncated: it ends inside the first 12 bytes");
  NpyHeader header;
  header.version = std::to_integer<unsigned>(at[6]);
  if (header.version < 1 || header.version > 3) {
    throw bad_file(source, "is npy version {}.{}; Kith reads 1.0, 2.0 and 3.0", header.version,
                   std::to_integer<unsigned>(at[7]));
  }
  const std::uint64_t start = header.version == 1 ? 10 : 12;
  const std::uint64_t length =
      header.version == 1 ? load<std::uint16_t>(at + 8) : load<std::uint32_t>(at + 8);
  if (length > source.size() - start) {
    throw bad_file(source, "is truncated: its header ends at byte {}, the file has {}", start + length,
                   source.size());
  }
  header.offset = start + length;
  DictParser(source, source.text().substr(start, length)).parse(header);
  parse_descr(source, header, flags);
  return header;
}

NpyHeader parse_npy_rows(const Source& source) {
  NpyHeader header = parse_npy_header(source, false);
  if (header.shape.size() != 2) {
    throw bad_file(source,
                   "holds an array of {}; Kith reads rows of vectors, which have 2; save "
                   "x.reshape(-1, 1) for numbers, x.reshape(1, -1) for one vector",
                   plural(static_cast<std::int64_t>(header.shape.size()), "dimension"));
  }
  check_shape(source, header.shape[0], header.shape[1]);
  const auto row = total_bytes(header.shape[1], header.element);
  const std::uint64_t available = source.size() - header.offset;
  const auto all = row ? total_bytes(header.shape[0], *row) : std::nullopt;
  const std::uint64_t claimed = all.value_or(std::numeric_limits<std::uint64_t>::max());
  if (claimed != available) {
    throw bad_file(source, "is {}: its header claims {} x {} elements of {}, the file has {} for them",
                   claimed < available ? "not one array (or corrupt)" : "truncated or corrupt",
                   header.shape[0], header.shape[1],
                   plural(static_cast<std::int64_t>(header.element), "byte"),
                   plural(static_cast<std::int64_t>(available), "byte"));
  }
  return header;
}

std::string npy_element_type(const NpyHeader& header) {
  if (header.kind == 'V') return "bf16";
  return fmt::format("{}{}", header.kind, 8 * header.element);
}

}  // namespace kith::io
