// Exact nearest neighbours in a few lines: random vectors, ten queries, the five nearest of each.
#include <kith/kith.hpp>

#include <cstdio>
#include <random>
#include <vector>

int main() {
  // 10,000 vectors of dimension 32, row after row.
  constexpr std::int64_t rows = 10'000;
  constexpr std::int64_t dim = 32;
  std::vector<float> values(rows * dim);
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  for (float& value : values) value = normal(generator);

  try {
    // A view never owns: `values` must outlive the index. kith::Dataset owns, or maps a file.
    const kith::DatasetView dataset(values.data(), rows, dim);
    const kith::BruteForce index = kith::BruteForce::build(
        dataset, {.metric = kith::Metric::euclidean, .filter = kith::Filter::automatic});

    // The first ten rows ask for their five nearest; each finds itself first, at distance 0.
    const kith::Neighbors found = index.search(dataset.slice(0, 10), 5);
    for (std::int64_t query = 0; query < found.queries; ++query) {
      std::printf("row %lld:", static_cast<long long>(query));
      for (std::int64_t rank = 0; rank < found.k; ++rank) {
        std::printf("  %lld (%.3f)", static_cast<long long>(found.indices_of(query)[rank]),
                    found.distance(query, rank));
      }
      std::printf("\n");
    }

    // Saved once, memory-mapped later by any program.
    index.save("example.kith");
    const kith::AnyIndex again = kith::AnyIndex::load("example.kith");
    const kith::Neighbors same = again.search(dataset.slice(0, 10), 5);
    std::printf("loaded %s of %lld rows: %s\n", again.type().c_str(), static_cast<long long>(again.rows()),
                same.indices == found.indices ? "the same answer" : "ANOTHER ANSWER");
    return same.indices == found.indices ? 0 : 1;
  } catch (const kith::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
