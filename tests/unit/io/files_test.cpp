// Recognising formats, missing and foreign files, writing whole or not at all.
#include <sstream>

#include <fcntl.h>
#include <sys/stat.h>

#include "fuzz/seeds.hpp"
#include "io/stream_file.hpp"
#include "kith/any_index.hpp"
#include "unit/io/support.hpp"

namespace kith {
namespace {

using test::expect_error;
using test::raw;
using Files = test::IoTest;

const std::vector<float> three = {1, 2, 3};

TEST_F(Files, FormatsByExtension) {
  const std::vector<std::pair<const char*, FileFormat>> expected = {
      {"a.fvecs", FileFormat::fvecs}, {"a.bvecs", FileFormat::bvecs}, {"a.ivecs", FileFormat::ivecs},
      {"a.fbin", FileFormat::fbin},   {"a.u8bin", FileFormat::u8bin}, {"a.i8bin", FileFormat::i8bin},
      {"a.ibin", FileFormat::ibin},   {"a.bin", FileFormat::ibin},    {"a.npy", FileFormat::npy},
      {"a.h5", FileFormat::hdf5},     {"a.HDF5", FileFormat::hdf5},   {"a.pcd", FileFormat::pcd},
      {"a.ply", FileFormat::ply},     {"a.LAS", FileFormat::las},     {"a.xyz", FileFormat::xyz},
      {"a.json", FileFormat::json},   {"a.txt", FileFormat::table},   {"a.kith", FileFormat::index}};
  for (const auto& [file, format] : expected) EXPECT_EQ(guess_format((*this)(file)), format) << file;
  for (const char* file : {"a", "a.", "a.what"}) {
    expect_error<InvalidArgument>([&] { guess_format((*this)(file)); }, {file, ".npy"});
  }
}

TEST_F(Files, FormatsByContentWhereTheNameSaysNothing) {
  for (const auto& [format, seeds] : fuzz::make_seeds(folder_)) {
    for (const auto& seed : seeds) {
      io::Source source;
      source.bytes = std::as_bytes(std::span(seed.bytes));
      const io::Format* entry = io::format_by_content(source);
      if (entry != nullptr) {
        EXPECT_EQ(entry->name, format) << seed.name;
        EXPECT_EQ(name(guess_format(put("mystery", seed.bytes))), format) << seed.name;
      }
      EXPECT_EQ(name(guess_format(put(seed.name, seed.bytes))), format) << seed.name;
    }
  }
  expect_error<InvalidArgument>([&] { guess_format(put("mystery", "hello")); }, {"mystery", ".npy"});
  expect_error<IoError>([&] { inspect(put("mystery", "hello")); }, {"mystery", ".npy"});
}

TEST_F(Files, ForeignContentIsNamed) {
  write_dataset((*this)("a.npy"), DatasetView(three.data(), 1, 3));
  const std::string npy = slurp((*this)("a.npy"));
  for (const char* file : {"b.h5", "b.ply", "b.pcd", "b.las", "b.fvecs", "b.fbin", "b.u8bin", "b.ivecs",
                           "b.bin", "b.xyz", "b.kith"}) {
    expect_error<IoError>([&] { read_dataset(put(file, npy)); }, {file, "npy"});
    expect_error<IoError>([&] { inspect((*this)(file)); }, {file});
    expect_error<IoError>([&] { guess_format((*this)(file)); }, {file});
  }
  // A format that is asked for is not guessed, but checked all the same.
  ReadOptions options;
  options.format = FileFormat::las;
  expect_error<IoError>([&] { read_dataset((*this)("a.npy"), options); }, {"a.npy", "not LAS"});
}

TEST_F(Files, MissingFoldersAndEmptyFiles) {
  std::filesystem::create_directory((*this)("folder.npy"));
  for (const auto& [format, seeds] : fuzz::make_seeds((*this)("folder.npy"))) {
    for (const auto& seed : seeds) {
      const auto path = (*this)(seed.name);
      for (const auto& [prepare, word] :
           std::vector<std::pair<int, std::string>>{{0, "No such file"}, {1, "empty"}, {2, "folder"}}) {
        std::filesystem::remove(path);
        if (prepare == 1) put(seed.name, "");
        if (prepare == 2) std::filesystem::create_directory(path);
        // An empty index does not start with the magic; an empty file that might be text results is points.
        const std::string expected = format == "index" && prepare == 1 ? "KITHIDX" : word;
        expect_error<IoError>([&] { inspect(path); }, {seed.name, expected});
        expect_error<IoError>([&] { read_dataset(path); }, {seed.name});
        expect_error<IoError>([&] { read_neighbors(path); }, {seed.name});
      }
    }
  }
}

// What came through a pipe is a file like others: by its name's extension, again and again.
TEST_F(Files, StreamsBecomeFiles) {
  put("rows.fvecs", raw(std::int32_t{2}) + raw(1.0F) + raw(2.0F));
  const int opened = ::open((*this)("rows.fvecs").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(opened, 0);
  std::uint64_t seen = 0;
  const io::StreamFile stream(opened, "/a/pipe.fvecs", [&](std::uint64_t bytes) { seen = bytes; });
  ::close(opened);
  EXPECT_EQ(seen, 12U);
  EXPECT_EQ(io::shown_name(stream.path()), "/a/pipe.fvecs");
  EXPECT_EQ(io::shown_name("/a/file"), "/a/file");
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(inspect(stream.path()).dim, 2);
    EXPECT_EQ(read_dataset(stream.path()).rows(), 1);
  }
  expect_error<IoError>([&] { inspect(stream.path(), FileFormat::npy); }, {"/a/pipe.fvecs"});
  const io::StreamFile nameless(std::string(300, 'x') + ".npy");
  EXPECT_TRUE(io::shown_name(nameless.path()).ends_with("xx.npy"));
  expect_error<IoError>([&] { read_dataset(nameless.path()); }, {".npy", "empty"});
}

TEST_F(Files, PipesAndDevicesAreNotReadForEver) {
  ASSERT_EQ(::mkfifo((*this)("a.npy").c_str(), 0600), 0);
  expect_error<IoError>([&] { read_dataset((*this)("a.npy")); }, {"a.npy", "pipe"});
  expect_error<IoError>([&] { inspect("/dev/null"); }, {"/dev/null", "device"});
}

// Every extension is in the documentation's table.
TEST_F(Files, DocumentationListsEveryExtension) {
  const std::string text = slurp(std::filesystem::path(KITH_SOURCE_DIR) / "docs" / "formats.md");
  const std::string table = text.substr(0, text.find("## "));
  for (const io::Format& entry : io::formats()) {
    std::istringstream extensions{std::string(entry.extensions)};
    for (std::string one; extensions >> one;) {
      EXPECT_NE(table.find("`" + one + "`"), std::string::npos) << one;
    }
  }
}

TEST_F(Files, AFailedWriteLeavesTheOldFileAlone) {
  const std::vector<double> d = {1, 2, 3};
  for (const char* file : {"a.fvecs", "a.fbin", "a.u8bin"}) {
    put(file, "old");
    EXPECT_THROW(write_dataset((*this)(file), DatasetView(d.data(), 1, 3)), InvalidArgument);
    EXPECT_EQ(slurp((*this)(file)), "old");
  }
  EXPECT_EQ(files(), 3U) << "no temporary is left";
  expect_error<IoError>([&] { write_dataset((*this)("none/a.npy"), DatasetView(three.data(), 1, 3)); },
                        {"none/a.npy"});
  std::filesystem::create_directory((*this)("folder.npy"));
  expect_error<IoError>([&] { write_dataset((*this)("folder.npy"), DatasetView(three.data(), 1, 3)); },
                        {"folder"});
}

TEST_F(Files, APairIsWrittenTogetherOrNotAtAll) {
  put("r.indices.npy", "old");
  std::filesystem::create_directory((*this)("r.distances.npy"));  // the second file cannot be made
  Neighbors result;
  result.queries = result.k = 1;
  result.indices = {0};
  result.distances = std::vector<float>{0};
  EXPECT_THROW(write_neighbors((*this)("r"), result), IoError);
  EXPECT_EQ(slurp((*this)("r.indices.npy")), "old");
  EXPECT_EQ(files(), 2U);
}

TEST_F(Files, AFullDiskIsReported) {
  for (const FileFormat format : {FileFormat::fvecs, FileFormat::fbin, FileFormat::npy, FileFormat::pcd,
                                  FileFormat::ply, FileFormat::las, FileFormat::xyz}) {
    WriteOptions options;
    options.format = format;
    expect_error<IoError>([&] { write_dataset("/dev/full", DatasetView(three.data(), 1, 3), options); },
                          {"/dev/full", "No space left"});
  }
  WriteOptions options;
  options.format = FileFormat::hdf5;
  expect_error<IoError>([&] { write_dataset("/dev/full", DatasetView(three.data(), 1, 3), options); },
                        {"/dev/full", "No space left"});
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
  expect_error<IoError>([&] { write_dataset("/proc/a.npy", DatasetView(three.data(), 1, 3)); },
                        {"/proc/a.npy"});
}

TEST_F(Files, FormatsThatHoldNoVectorsAreNotWritten) {
  for (const char* file : {"a.ivecs", "a.ibin", "a.json", "a.txt", "a.kith", "a.what", "a"}) {
    expect_error<InvalidArgument>([&] { write_dataset((*this)(file), DatasetView(three.data(), 1, 3)); },
                                  {file, "fvecs"});
  }
  DatasetView device(three.data(), 1, 3);
  device.space = MemorySpace::cuda;
  expect_error<InvalidArgument>([&] { write_dataset((*this)("a.npy"), device); }, {"device"});
}

TEST_F(Files, InspectNamesWhatIsInAnIndex) {
  BruteForceParameters parameters;
  parameters.metric = Metric::cosine;
  BruteForce::build(DatasetView(three.data(), 1, 3), parameters).save((*this)("a.kith"));
  const FileInfo info = inspect((*this)("a.kith"));
  EXPECT_EQ(info.format, FileFormat::index);
  EXPECT_EQ(info.element_type, "f32");
  EXPECT_EQ(info.rows, 1);
  EXPECT_EQ(info.dim, 3);
  const std::vector<std::pair<std::string, std::string>> first = {
      {"index", "brute_force"}, {"version", "1"}, {"metric", "cosine"}};
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(info.details.at(i), first[i]);
  EXPECT_EQ(info.details.at(3).first.substr(0, 8), "section ");
  expect_error<IoError>([&] { read_dataset((*this)("a.kith")); }, {"index"});
}

TEST_F(Files, NamesOfFormats) {
  for (const io::Format& entry : io::formats()) EXPECT_EQ(name(entry.format), entry.name);
  EXPECT_EQ(io::formats().size(), 16U);
}

}  // namespace
}  // namespace kith
