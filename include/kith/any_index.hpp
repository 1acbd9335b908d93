/// @file
/// One type for every index, for programs that choose at run time (the command line, Python), and the list of
/// them. A new type of index is a class that fulfils IndexClass and an entry in Indexes.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "kith/brute_force.hpp"
#include "kith/error.hpp"
#include "kith/index_type.hpp"
#include "kith/kd_tree.hpp"
#include "kith/octree.hpp"
#include "kith/vamana.hpp"

namespace kith {

/// What every index class offers. One that takes search options takes them as the last argument of its
/// searches.
template <class Index>
concept IndexClass = std::copyable<Index> &&
    std::same_as<std::remove_cv_t<decltype(Index::index_type)>, IndexType> &&
    std::default_initializable<typename Index::Parameters> &&
    requires(const Index& index, typename Index::Parameters& parameters, const Dataset& dataset,
             const DatasetView& queries, const NeighborsView& out, const Execution& execution,
             const std::filesystem::path& path) {
  { parameters.metric } -> std::same_as<Metric&>;
  { Index::build(dataset, parameters, execution) } -> std::same_as<Index>;
  { Index::load(path, execution) } -> std::same_as<Index>;
  { index.search(queries, std::int64_t{1}, execution) } -> std::same_as<Neighbors>;
  { index.search_into(queries, out, execution) } -> std::same_as<SearchStatistics>;
  index.save(path, execution);
  { index.rows() } -> std::same_as<std::int64_t>;
  { index.dim() } -> std::same_as<std::int64_t>;
  { index.dtype() } -> std::same_as<Dtype>;
  { index.metric() } -> std::same_as<Metric>;
  { index.memory_bytes() } -> std::same_as<std::uint64_t>;
};

class AnyIndex;

/// A combination that an index type supports.
struct Support {
  std::string_view index;
  Dtype dtype;
  Metric metric;
  Device::Kind backend;
};

/// A list of index types, and what is chosen from it by name.
template <IndexClass... Index>
struct Registry {
  /// Parameters of one of them, and so its type.
  using Parameters = std::variant<typename Index::Parameters...>;

  static constexpr std::array<IndexType, sizeof...(Index)> types = {Index::index_type...};

  /// @return null for a name that is none of theirs
  static constexpr const IndexType* find(std::string_view name) {
    const auto found = std::ranges::find(types, name, &IndexType::name);
    return found == types.end() ? nullptr : &*found;
  }

  /// @throws InvalidArgument for a name that is none of theirs
  static const IndexType& get(std::string_view name);

  /// The type that parameters are for.
  static constexpr const IndexType& type_of(const Parameters& parameters) {
    return types[parameters.index()];
  }

  /// A type's parameters, all but the metric as they are by default.
  /// @throws InvalidArgument for a name that is none of theirs
  static Parameters parameters(std::string_view name, Metric metric);

  /// @throws what the type's build throws
  static AnyIndex build(const Dataset& dataset, const Parameters& parameters, const Execution& execution);

  /// @return nothing for a name that is none of theirs
  /// @throws what the type's load throws
  static std::optional<AnyIndex> load(std::string_view name, const std::filesystem::path& path,
                                      const Execution& execution);

  static constexpr std::size_t count_supported() {
    std::size_t count = 0;
    for (const IndexType& type : types)
      count += type.backends.size() * type.dtypes.size() * type.metrics.size();
    return count;
  }

  /// Every (index, dtype, metric, backend) that one of them supports.
  static constexpr auto make_supported() {
    std::array<Support, count_supported()> list{};
    std::size_t at = 0;
    for (const IndexType& type : types) {
      for (const Device::Kind backend : type.backends) {
        for (const Dtype dtype : type.dtypes) {
          for (const Metric metric : type.metrics) list[at++] = {type.name, dtype, metric, backend};
        }
      }
    }
    return list;
  }
};

/// Every type of index there is.
using Indexes = Registry<BruteForce, KdTree, Octree, Vamana>;

/// Parameters of one type of index: BruteForceParameters, KdTreeParameters, OctreeParameters or
/// VamanaParameters.
using IndexParameters = Indexes::Parameters;

/// Sets what not every type has. @return false, and nothing is set, where the parameters' type lacks it
bool set_filter(IndexParameters& parameters, Filter filter);
bool set_leaf_size(IndexParameters& parameters, std::int64_t leaf_size);

/// A type-erased index. Cheap to copy; copies share the index.
class AnyIndex {
 public:
  template <IndexClass Index>
  AnyIndex(Index index)  // NOLINT(google-explicit-constructor)
      : self_(std::make_shared<Model<Index>>(std::move(index))) {}

  /// Builds the type that the parameters are for.
  /// @throws what its build throws
  static AnyIndex build(const Dataset& dataset, const IndexParameters& parameters,
                        const Execution& execution = {});

  /// The same by name, with the type's default parameters.
  /// @param type "brute_force", "kd_tree", "octree", "vamana"; index_types() lists them
  /// @throws InvalidArgument for an unknown type, and what the type's build throws
  static AnyIndex build(std::string_view type, const Dataset& dataset, Metric metric = Metric::sqeuclidean,
                        const Execution& execution = {});

  /// Opens a saved index of whatever type its header names.
  /// @throws IoError
  static AnyIndex load(const std::filesystem::path& path, const Execution& execution = {});

  /// @throws InvalidArgument for an option that the type does not take, and what its search throws
  Neighbors search(const DatasetView& queries, std::int64_t k, const Execution& execution = {},
                   const SearchOptions& options = {}) const {
    check_options(index_type(), options);
    return self_->search(queries, k, execution, options);
  }
  SearchStatistics search_into(const DatasetView& queries, const NeighborsView& out,
                               const Execution& execution = {}, const SearchOptions& options = {}) const {
    check_options(index_type(), options);
    return self_->search_into(queries, out, execution, options);
  }
  void save(const std::filesystem::path& path, const Execution& execution = {}) const {
    self_->save(path, execution);
  }
  const IndexType& index_type() const noexcept { return self_->type; }
  /// Its name.
  std::string type() const { return std::string(self_->type.name); }
  std::int64_t rows() const noexcept { return self_->rows(); }
  std::int64_t dim() const noexcept { return self_->dim(); }
  Dtype dtype() const noexcept { return self_->dtype(); }
  Metric metric() const noexcept { return self_->metric(); }
  std::uint64_t memory_bytes() const noexcept { return self_->memory_bytes(); }

  /// What the trees offer beyond search, when it is one of them; else nullptr. Lives as long as this
  /// AnyIndex.
  const PointTree* point_tree() const noexcept { return self_->point_tree(); }

  /// The index itself when it is of that class, else nullptr; lives as long as this AnyIndex.
  template <class Index>
  const Index* get_if() const noexcept {
    const auto* model = dynamic_cast<const Model<Index>*>(self_.get());
    return model == nullptr ? nullptr : &model->index;
  }

 private:
  struct Concept {
    explicit Concept(const IndexType& t) : type(t) {}
    virtual ~Concept() = default;
    virtual Neighbors search(const DatasetView&, std::int64_t, const Execution&,
                             const SearchOptions&) const = 0;
    virtual SearchStatistics search_into(const DatasetView&, const NeighborsView&, const Execution&,
                                         const SearchOptions&) const = 0;
    virtual void save(const std::filesystem::path&, const Execution&) const = 0;
    virtual std::int64_t rows() const = 0;
    virtual std::int64_t dim() const = 0;
    virtual Dtype dtype() const = 0;
    virtual Metric metric() const = 0;
    virtual std::uint64_t memory_bytes() const = 0;
    virtual const PointTree* point_tree() const = 0;
    const IndexType& type;
  };
  template <class Index>
  struct Model final : Concept {
    explicit Model(Index i) : Concept(Index::index_type), index(std::move(i)) {}
    Neighbors search(const DatasetView& q, std::int64_t k, const Execution& e,
                     const SearchOptions& o) const override {
      return with(o, [&](const auto&... more) { return index.search(q, k, e, more...); });
    }
    SearchStatistics search_into(const DatasetView& q, const NeighborsView& out, const Execution& e,
                                 const SearchOptions& o) const override {
      return with(o, [&](const auto&... more) { return index.search_into(q, out, e, more...); });
    }
    // The options as the class takes them.
    template <class Search>
    static auto with(const SearchOptions& options, const Search& search) {
      if constexpr (Index::index_type.options.empty()) {
        return search();
      } else {
        return search(options);
      }
    }
    void save(const std::filesystem::path& p, const Execution& e) const override { index.save(p, e); }
    std::int64_t rows() const override { return index.rows(); }
    std::int64_t dim() const override { return index.dim(); }
    Dtype dtype() const override { return index.dtype(); }
    Metric metric() const override { return index.metric(); }
    std::uint64_t memory_bytes() const override { return index.memory_bytes(); }
    const PointTree* point_tree() const override {
      if constexpr (std::derived_from<Index, PointTree>) return &index;
      return nullptr;
    }
    Index index;
  };
  std::shared_ptr<const Concept> self_;
};

template <IndexClass... Index>
const IndexType& Registry<Index...>::get(std::string_view name) {
  if (const IndexType* type = find(name)) return *type;
  std::string known;
  for (const IndexType& type : types) known += (known.empty() ? "" : ", ") + std::string(type.name);
  throw InvalidArgument("index type '" + std::string(name) + "' is not one Kith knows; use " + known);
}

template <IndexClass... Index>
auto Registry<Index...>::parameters(std::string_view name, Metric metric) -> Parameters {
  const IndexType& type = get(name);
  Parameters chosen;
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    (void)((types[i].name == type.name && (chosen.template emplace<i>(), true)) || ...);
  }
  (std::index_sequence_for<Index...>{});
  std::visit([metric](auto& its) { its.metric = metric; }, chosen);
  return chosen;
}

template <IndexClass... Index>
AnyIndex Registry<Index...>::build(const Dataset& dataset, const Parameters& parameters,
                                   const Execution& execution) {
  std::optional<AnyIndex> built;
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    (void)((parameters.index() == i &&
            (built.emplace(Index::build(dataset, std::get<i>(parameters), execution)), true)) ||
           ...);
  }
  (std::index_sequence_for<Index...>{});
  if (!built) throw InvalidArgument("the index parameters are those of no index type; assign them anew");
  return *std::move(built);
}

template <IndexClass... Index>
std::optional<AnyIndex> Registry<Index...>::load(std::string_view name, const std::filesystem::path& path,
                                                 const Execution& execution) {
  std::optional<AnyIndex> loaded;
  (void)((Index::index_type.name == name && (loaded.emplace(Index::load(path, execution)), true)) || ...);
  return loaded;
}

/// Names that AnyIndex::build accepts.
std::vector<std::string> index_types();

/// An index type and why it is the one.
struct IndexChoice {
  std::string index;
  std::string reason;
};

/// The type that answers a task soonest, its build included, by costs measured on one machine, or on one GPU
/// where `execution` names some (docs/which-index.md). An approximate one only for a recall below 1, and
/// where no exact one answers as soon.
/// @param queries how many are expected; 0: as many as rows
/// @param recall share of the nearest rows that is asked for
IndexChoice choose_index(std::int64_t rows, std::int64_t dim, std::int64_t queries, std::int64_t k,
                         Metric metric, const Execution& execution = {}, double recall = 1);

}  // namespace kith
