// The C++ interface piece by piece; docs/cpp.md quotes this file.
#include <kith/kith.hpp>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

namespace {

// One search over rows that lie in memory.
void one_search() {
  const std::vector<float> base = {0, 0, 3, 4, 6, 8, 1, 0};  // four points of the plane
  const std::vector<float> asked = {1, 1};
  const kith::DatasetView dataset(base.data(), 4, 2);
  const kith::DatasetView queries(asked.data(), 1, 2);
  const kith::Neighbors found = kith::knn(dataset, queries, 2, {.metric = kith::Metric::euclidean});
  for (std::int64_t rank = 0; rank < found.k; ++rank) {
    std::printf("row %lld at distance %.3f\n", static_cast<long long>(found.indices_of(0)[rank]),
                found.distance(0, rank));
  }
}

// Rows with something between them, and parts of a matrix.
void views() {
  struct Point {
    double x, y, z;
    double intensity;
  };
  std::vector<Point> cloud(1000);
  for (std::size_t i = 0; i < cloud.size(); ++i) {
    const auto t = static_cast<double>(i);
    cloud[i] = {4.0e5 + std::cos(t), 5.5e6 + std::sin(t), 0.01 * t, 1};
  }
  // 1000 rows of three float64 values, four values apart: nothing is copied.
  const kith::DatasetView points(&cloud[0].x, 1000, 3, 4);
  const kith::Neighbors found = kith::knn(points, points.slice(10, 5), 4);
  std::printf("point 10: nearest other point %lld\n", static_cast<long long>(found.indices_of(0)[1]));
}

// A cloud in tiles on disk.
void tiles_on_disk(const std::filesystem::path& folder) {
  const kith::Dataset cloud = kith::generate({.rows = 30000, .dim = 3, .seed = 5});
  kith::write_dataset(folder / "a.npy", cloud.view().slice(0, 10000));
  kith::write_dataset(folder / "b.npy", cloud.view().slice(10000, 20000));
  const std::vector<std::filesystem::path> files = {folder / "a.npy", folder / "b.npy"};  // one cloud
  kith::Execution limited;
  limited.memory_limit = 16 << 20;
  const auto tiles = kith::PointTiles::build(folder / "tiles", files, {.tile_points = 2000}, limited);
  // near.indices.npy and near.distances.npy, both or neither.
  const kith::TileAnswer answer =
      tiles.all_knn(folder / "near", 8, {.metric = kith::Metric::euclidean}, {}, limited);
  std::printf("%lld tiles, %.1f %% of the points needed another than their own\n",
              static_cast<long long>(tiles.tiles()),
              100.0 * static_cast<double>(answer.statistics.crossed) / static_cast<double>(tiles.rows()));
}

// Rows in several saved indexes.
void shards_on_disk(const std::filesystem::path& folder) {
  const kith::Dataset base = kith::generate({.rows = 6000, .dim = 16, .seed = 6});
  kith::write_dataset(folder / "base.npy", base);
  const std::vector<std::filesystem::path> files = {folder / "base.npy"};  // or several, or rows in memory
  const auto shards = kith::Sharded::build(folder / "shards", files, {kith::BruteForceParameters{}, 4});
  const kith::Neighbors found = shards.search(base.view().slice(0, 100), 10);
  const kith::Neighbors one = kith::knn(base, base.view().slice(0, 100), 10);
  std::printf("%lld shards, the answer of one index: %s\n", static_cast<long long>(shards.shards()),
              found.indices == one.indices ? "yes" : "no");
}

// An index, searched many times, saved and loaded.
void an_index(const std::string& path) {
  const kith::Dataset base =
      kith::generate({.generator = kith::Generator::clusters, .rows = 5000, .dim = 48, .seed = 1});
  const kith::BruteForce index = kith::BruteForce::build(base, {.metric = kith::Metric::cosine});
  const kith::Neighbors found = index.search(base.view().slice(0, 100), 10);
  std::printf("filter %s, %lld of %lld pairs evaluated exactly\n", found.statistics.filter.c_str(),
              static_cast<long long>(found.statistics.candidates),
              static_cast<long long>(found.statistics.pairs));
  index.save(path);                                             // whole or not at all
  const kith::BruteForce again = kith::BruteForce::load(path);  // the rows stay in the file, mapped
  const kith::AnyIndex any = kith::AnyIndex::load(path);        // whatever type the file holds
  std::printf("%s, %lld rows, the same answer: %s\n", any.type().c_str(), static_cast<long long>(any.rows()),
              again.search(base.view().slice(0, 100), 10).indices == found.indices ? "yes" : "no");
}

// Threads, a memory limit, progress, and a way to stop.
void execution() {
  const kith::Dataset base = kith::generate({.rows = 20000, .dim = 16, .dtype = kith::Dtype::u8});
  int reports = 0;
  kith::Execution execution;
  execution.threads = 2;
  execution.memory_limit = std::uint64_t{512} << 20U;  // bytes beyond the data; 0: no limit
  execution.progress = [&](const kith::Progress& progress) { reports += progress.done > 0 ? 1 : 0; };
  execution.cancelled = [] { return false; };  // return true to stop: the call throws kith::Cancelled
  const kith::Neighbors found = kith::knn(base, base.view().slice(0, 200), 5, {}, execution);
  std::printf("%lld queries, %s progress\n", static_cast<long long>(found.queries),
              reports > 0 ? "with" : "without");
}

// Files in and out.
void files(const std::string& folder) {
  const kith::Dataset made = kith::generate({.rows = 100, .dim = 8});
  kith::write_dataset(folder + "/tour.fvecs", made);
  const kith::Dataset read = kith::read_dataset(folder + "/tour.fvecs");
  const kith::Dataset halves = kith::convert(read, kith::Dtype::f16, kith::Rounding::nearest);
  const kith::Neighbors truth = kith::knn(read, read, 3);
  const kith::Neighbors rounded = kith::knn(halves, halves, 3);
  for (const auto& file : kith::write_neighbors(folder + "/tour_answer", rounded)) {
    std::printf("wrote %s\n", file.filename().c_str());
  }
  std::printf("recall of half precision: %.2f\n", kith::evaluate(rounded, truth).recall);
}

// Points: what trees have beyond a search.
void trees() {
  const kith::Dataset points = kith::generate({.rows = 5000, .dim = 3, .seed = 2});
  const kith::KdTree tree = kith::KdTree::build(points, {.metric = kith::Metric::euclidean});  // or Octree
  const kith::Neighbors near = tree.search(points.view().slice(0, 10), 8);
  const kith::Neighbors all = tree.all_knn(8);  // the other rows nearest to every row
  const kith::RadiusNeighbors within = tree.radius_search(points.view().slice(0, 10), 0.1);
  const kith::Normals normals = tree.normals({.k = 20});
  std::printf("%lld lists, %lld lists, %zu rows within 0.1 of ten points, %zu normals\n",
              static_cast<long long>(near.queries), static_cast<long long>(all.queries),
              within.indices.size(), normals.curvature.size());
}

// A graph: most of the nearest rows, quickly, and how many is known.
void a_graph() {
  const kith::Dataset base = kith::generate(
      {.generator = kith::Generator::low_intrinsic_dimension, .rows = 5000, .dim = 64, .seed = 3});
  const kith::Vamana graph = kith::Vamana::build(base, {.metric = kith::Metric::euclidean});
  const kith::DatasetView queries = base.view().slice(0, 100);
  const kith::Neighbors found = graph.search(queries, 10, {}, {.recall = 0.9});
  const kith::Neighbors walked = graph.search(queries, 10, {}, {.list_size = 64});
  const kith::Neighbors exact = graph.search(queries, 10, {}, {.recall = 1});
  std::printf("a list of %lld finds %.2f or more; one of 64 found %.2f\n",
              static_cast<long long>(found.statistics.list_size), found.statistics.recall,
              kith::evaluate(walked, exact).recall);
}

// Graphs of other libraries, in and out.
void other_libraries(const std::string& folder) {
  const kith::Dataset base = kith::generate({.rows = 2000, .dim = 16, .seed = 5});
  const kith::Vamana graph = kith::Vamana::build(base);
  kith::export_graph(graph, folder + "/tour.hnsw", kith::GraphFormat::hnswlib);  // hnswlib opens it
  const kith::ImportedGraph imported = kith::import_graph(folder + "/tour.hnsw");
  const kith::DatasetView queries = base.view().slice(0, 50);
  const kith::Neighbors found = imported.index.search(queries, 10, {}, {.recall = 0.95});
  std::printf("a graph of %s over %lld rows, to a recall of %.2f or more\n",
              std::string(kith::name(imported.format)).c_str(), static_cast<long long>(imported.index.rows()),
              found.statistics.recall);
}

// Some of the rows: those that are in stock, say.
void allowed_rows() {
  const kith::Dataset points = kith::generate({.rows = 5000, .dim = 3});
  kith::RowSet in_stock(points.rows());
  for (std::int64_t row = 0; row < points.rows(); row += 3) in_stock.insert(row);
  const kith::KdTree tree = kith::KdTree::build(points);
  const kith::Neighbors found = tree.search(points.view().slice(1, 1), 4, {}, {.allowed = &in_stock});
  std::printf("row %lld is the nearest in stock\n", static_cast<long long>(found.indices[0]));
}

// Rows in fewer bits.
void codes() {
  const kith::Dataset base = kith::generate({.rows = 5000, .dim = 64, .seed = 3});
  const kith::Quantizer quantizer = kith::Quantizer::train(base, kith::RabitqParameters{.bits = 4});
  const kith::Dataset codes = quantizer.encode(base);
  const kith::DatasetView queries = base.view().slice(0, 100);
  const kith::Neighbors ranked = quantizer.search(queries, codes, 10);
  const kith::Estimates estimates = quantizer.estimate(queries, codes);
  std::printf("%lld bytes a row lose %.3f of the variance and find %.2f of the nearest; %.1f +- %.1f\n",
              static_cast<long long>(quantizer.code_bytes()), quantizer.reconstruction_error(base, codes),
              kith::evaluate(ranked, kith::knn(base, queries, 10)).recall, estimates.distances[1],
              estimates.bounds[1]);
}

// A type of index that is known at run time only.
void any_index() {
  const kith::Dataset points = kith::generate({.rows = 5000, .dim = 3});
  const kith::AnyIndex tree = kith::AnyIndex::build(points, kith::KdTreeParameters{.leaf_size = 32});
  const kith::AnyIndex named = kith::AnyIndex::build("octree", points, kith::Metric::euclidean);
  const kith::Neighbors near = named.search(points.view().slice(0, 10), 8, {}, {.radius = 0.5});
  std::printf("%s and %s, %lld lists\n", tree.type().c_str(), named.type().c_str(),
              static_cast<long long>(near.queries));
}

// Every error is a kith::Error that says the value, the limit and the remedy.
void errors() {
  const std::vector<float> values(8, 1.0F);
  try {
    kith::knn(kith::DatasetView(values.data(), 4, 2), kith::DatasetView(values.data(), 2, 4), 1);
  } catch (const kith::InvalidArgument& error) {
    std::printf("refused: %s\n", error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  one_search();
  views();
  an_index(folder + "/tour.kith");
  trees();
  tiles_on_disk(folder);
  shards_on_disk(folder);
  a_graph();
  other_libraries(folder);
  allowed_rows();
  codes();
  any_index();
  execution();
  files(folder);
  errors();
  return 0;
}
