"""The words of docs/from-a-loop-to-the-roofline.md: ideas and limits of the rungs, no figure that was measured."""

HEAD = """# From a loop to the roofline

<!-- Made by `python -m benchmarks.report` from benchmarks/results/ladder-*.json; change those, or
     benchmarks/report/story.py, not this file. -->

Which of many points is nearest to this one? Two nested loops answer that; everything after them gets the same answer
sooner. This page climbs from those loops to the limits of the hardware, one idea per rung. The first nineteen rungs are
the searches of the reports that Kith grew from, rewritten as short, complete programs
([benchmarks/ladder](../benchmarks/ladder); [ladder.md](ladder.md) says how to run them); the last ones are Kith. Every
figure was measured, and every verdict on which is faster was written by the program that read the figures.

A case is *d; q; n; k*: q queries among n points in d dimensions, k neighbours each. There are two kinds. With **one
query** each coordinate is used once, and a search can be no faster than memory delivers the points. With **many
queries** each coordinate can serve all of them, and arithmetic is the limit, provided the coordinates reach the
arithmetic units. Most rungs are about getting them there.
"""

SPEED_UP = """*How many times longer each rung takes than the fastest rung of the same case. Each mark is a case; a rung
that helps moves its marks to the left of those above it.*
"""

FLOOR = """*Floor* is the least time that brute force in float32 can take on one such GPU, limited by its memory or its
arithmetic. Trees examine few of the pairs, and a filter of one byte per coordinate reads a quarter of the bytes and
multiplies on the tensor cores: both can beat it. In small cases the floor is far below the cost of a single launch.
"""

# A chapter: its title and parts; a part: the rung's id ("" for words between rungs), its text, and the rungs to measure
# it against.
CHAPTERS = (
    (
        "A loop",
        (
            ("serial", """
**Rung 1** is the definition: for every query, look at every point and keep the nearest. One core does one addition
after another, and each waits for the one before it, since a compiler may not reorder a floating-point sum on its own.
Memory bandwidth does not matter yet.
""", ()),
        ),
    ),
    (
        "Onto the GPU, by way of a matrix",
        (
            ("matrix-thrust", """
A GPU wants thousands of independent tasks, and the distances are just that: one thread each. **Rung 2** stores them as
a matrix, queries by points, and lets a library find the smallest of each row. The library fills the whole chip for a
single row. It is called once per row, though, and each call is a handful of launches and a wait: once for one query, a
thousand times for a thousand.
""", ("serial",)),
            ("matrix-reduction", """
**Rung 3** gives each row to a block of threads: each thread keeps the nearest of its share, and a tree in shared memory
finds the nearest of these. One launch reduces all rows. The price is that one query is one block, which leaves all
multiprocessors but one idle. And the matrix is still there: each distance goes out to memory and comes back, eight
bytes per pair, for a number that is used once.
""", ("matrix-thrust",)),
        ),
    ),
    (
        "Without the matrix",
        (
            ("fused", """
**Rung 4** compares each distance where it was computed, in a register. The matrix is gone, and only the points are
read. With one query, the lone block now computes the distances as well, which the whole chip did before. And the layout
of the points matters: row by row, the 32 threads of a warp ask for values that are d coordinates apart, and each such
load touches many cache lines where one would do.
""", ("matrix-reduction",)),
            ("by-coordinate", """
**Rung 5** transposes the points: all first coordinates, then all second ones, a structure of arrays. A warp's 32 loads
are then one line. That pays where many warps compete for the cache. A lone block is bound by memory latency instead,
and waits less often when a point's coordinates share a line. The transposition is done once for all searches and is not
timed.
""", ("fused",)),
        ),
    ),
    (
        "Special memories",
        (
            ("texture", """
GPUs have special-purpose memories, and for years the road to speed led through them. **Rung 6** reads the points
through the texture units, which had a cache before ordinary loads did. A texture is 65,536 texels wide, so larger sets
of points are folded into several rows. Today ordinary loads are cached in the very same memory, and reach it by a wider
path.
""", ("by-coordinate",)),
            ("constant", """
**Rung 7** puts the queries into constant memory, which broadcasts one value to all threads of a warp. It holds 64 KiB;
more queries go in batches. It saves the loads of the queries, which hit the cache anyway; those of the points remain.
""", ("by-coordinate",)),
        ),
    ),
    (
        "Filling the chip, and several of them",
        (
            ("occupancy", """
One block per query leaves a GPU idle when there are few queries. **Rung 8** asks the runtime how many blocks fit on the
device, deals out the points of each query among as many, and reduces their answers with a second kernel. It is made for
one query, which now gets the whole chip and its memory; a thousand queries filled the chip already.
""", ("by-coordinate",)),
            ("unrolled", """
**Rung 10** does the last steps of each reduction with shuffles, in registers and without barriers. It is a classic
lesson on reductions; here a block reduces only once, after thousands of points.
""", ("occupancy",)),
            ("several-gpus", """
**Rung 9** deals the points out to several GPUs and takes the nearest of their answers. Launches, copies of the answers
and the wait at the end do not shrink with the share.
""", ("occupancy",)),
            ("", """
Here the reports' climb for k = 1 ends. With many queries, every rung so far loads a value, uses it for one subtraction
and one multiply-add, and forgets it: the load units saturate long before the arithmetic ones. The way forward is to let
each loaded value serve many pairs.
""", ()),
        ),
    ),
    (
        "More than one neighbour",
        (
            ("insertion", """
For k > 1 each query needs a sorted list. **Rung 11** is the loop again, one thread per query. A few hundred queries are
a dozen warps on a chip that holds thousands, and each of them waits for its own loads.
""", ("serial",)),
            ("tiled", """
**Rung 12** computes the matrix of distances as a matrix product is computed: a block loads a tile of queries and one of
points into shared memory, and every value serves sixteen pairs. That is the idea that rungs 2 to 10 lack. One thread
per query still makes the lists.
""", ("insertion",)),
            ("merged-lists", """
**Rung 13** gives every thread of a block its own list and merges the lists in a tree. The lists fill shared memory, so
few blocks fit, and each thread must learn for itself what is far: with few points per thread, most of them enter its
list.
""", ("tiled",)),
            ("tuned-lists", """
**Rung 14** lets the occupancy calculator choose the block size, trading short scans with long merges against the
reverse.
""", ("merged-lists",)),
            ("insertion-sort", """
**Rung 19**, from the report on point clouds, has two kernels: all distances, then an insertion sort that never keeps
more than k. k may be any size; the list lies in device memory, and each insertion is a chain of loads and stores.
""", ("tiled", "matrix-reduction")),
        ),
    ),
    (
        "Not looking at every point",
        (
            ("kd-tree", """
Everything so far looks at every pair. **Rung 15** halves the points at a median, again and again, and a query skips
what lies behind a plane that is too far away. In three dimensions little is left to look at; in sixteen the plane is
nearly always close enough to matter.
""", ("serial",)),
            ("kd-tree-gpu", """
**Rung 16** copies that tree to the GPU, one thread per query. The threads of a warp part ways at the first node where
they turn differently, and take turns from then on; a thousand queries are 32 warps. The tree is still built on the CPU,
by one thread.
""", ("kd-tree",)),
            ("octree", """
**Rung 17** halves space along all axes at once, into up to eight cells, and visits every cell that can hold a
neighbour.
""", ("kd-tree",)),
            ("octree-gpu", """
**Rung 18** is that octree on the GPU. The reports' version did not visit every cell it had to and so missed some
neighbours; this one is exact.
""", ("octree", "kd-tree-gpu")),
        ),
    ),
    (
        "The engine",
        (
            ("engine-cpu", """
What Kith does differently, rung by rung:

- *Each loaded value serves many pairs.* With many queries, distances are products of tiles, as in rung 12, on the
  tensor cores, which do many times as many multiply-adds per second. In few dimensions it keeps to float32 differences.
- *Fewer bytes.* A filter reads one byte per coordinate in place of four. It is proved never to drop a neighbour
  ([exact-contract.md](exact-contract.md)), so the answer is still the exact one.
- *No lists during the scan.* A bound comes first, from a few points; then each product is compared with an integer
  threshold in a register, and only the few that pass are written out, evaluated exactly and sorted.
- *One query fills the chip too*: a single look at every pair, in three overlapping launches. With few points the
  launches are most of the time, and a program with fewer of them is quicker.
- *Trees are built where they are searched*, and a warp walks together: for one query with its 32 lanes, or once for 32
  neighbouring queries ([gpu.md](gpu.md#trees)).

On the CPU the same ideas run on all cores, with vector instructions:
""", ("serial",)),
            ("engine-kd-tree-cpu", "", ("kd-tree",)),
            ("engine-octree-cpu", "", ("octree",)),
            ("engine", "On the GPU:", ("occupancy", "tuned-lists")),
            ("engine-kd-tree", "", ("kd-tree-gpu",)),
            ("engine-octree", "", ("octree-gpu",)),
        ),
    ),
)

FOOT = """## Climb it yourself

```sh
kith ladder --include-copies -o ladder.json     # your machine; without a GPU the rungs on the processor
kith report ladder.json -o ladder.html          # these charts and all numbers, as one page
```

The figures of this page were made by:

```sh
{commands}
```
"""
