// The state that lowers one stage; its parts live in stage.cpp (units), states.cpp (what stands in
// memory), pipeline.cpp (messages) and data_parallel.cpp (gradients, parameters, optimizer).
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "activation_moves.h"
#include "data_parallel.h"
#include "optimizer_states.h"
#include "stage.h"
#include "stepcast/lower/lower.h"

namespace stepcast::lower {

// Whole blocks of the caching allocator (512 bytes, CUDACachingAllocator.cpp).
inline std::int64_t round_512(double bytes) {
  return (static_cast<std::int64_t>(bytes) + 511) / 512 * 512;
}

// What of a state is not on the device.
double share_away(const job::OffloadPart& part);

// A unit's operators but for those that vocabulary parallelism spreads over all stages.
model::OperatorGraph without_vocabulary(const model::OperatorGraph& graph);

class StageBuilder {
 public:
  StageBuilder(const StageContext& context, int stage);
  program::Program build();
  // Buffers of what units keep and make in their passes.
  const std::vector<std::uint32_t>& of_units() const { return of_units_; }

 private:
  template <class... Arguments>
  std::uint32_t allocate_for_unit(const Arguments&... arguments) {
    const std::uint32_t id = b_.allocate(arguments...);
    if (id != program::kNone) {
      of_units_.push_back(id);
    }
    return id;
  }
  // stage.cpp
  void make_units();
  bool shares_table() const;
  void add_passes(const model::OperatorGraph& graph, const Redone& redone);
  void make_streams();
  void make_persistent_buffers();
  program::StreamIndex stream_of(Role role) const;
  void replay(const std::vector<Item>& items);
  void issue(const Item& item);
  void pace(const std::vector<Item>& items);
  std::int64_t kept_bytes(const Unit& unit) const;
  std::int64_t weight_inputs(const Unit& unit) const;
  void memory_kernel(double bytes, cost::MemoryOp op, program::Category category, const char* label,
                     int launches = 1);
  void tensor_collective(cost::Collective op, std::int64_t bytes, program::Category category,
                         const char* label);

  // recompute.cpp
  void mark_recomputed(int chunk);
  void choose_whole();
  const std::vector<Unit>& units_of(int chunk, int micro_batch) const;
  std::int64_t while_sweeping(const Unit& unit) const;
  // recompute_optimal.cpp
 public:
  using Orders = std::vector<std::vector<strategy::ChainStep>>;  // by chunk
  // Chains of the stage's chunks and what they may use of `budget` bytes in all: nothing where that
  // is too little.
  std::optional<Orders> optimal_orders(std::int64_t activations) const;
  std::int64_t least_activations() const;
  Orders redo_first(int count) const;  // of each chunk's layers
  int most_layers() const;             // units of a chunk, at most
  double recomputed_flops() const { return recomputed_flops_; }
  void follow(Orders orders) { orders_ = std::move(orders); }

 private:
  struct ChunkChain {
    strategy::Chain chain;
    int in_flight = 1;
    std::int64_t whole = 0;  // bytes with everything kept
  };
  std::vector<ChunkChain> chains() const;
  int in_flight(int chunk) const;  // micro-batches; -1: of all chunks

  // slots.cpp
  struct Kept {  // buffers of a unit and micro-batch between its passes
    std::uint32_t activations = program::kNone;    // until I
    std::uint32_t recomputed = program::kNone;     // until I
    std::uint32_t inputs = program::kNone;         // of products whose weight gradient comes apart
    std::uint32_t gradients = program::kNone;      // of those products' outputs
    std::uint32_t remade = program::kNone;         // by single operators, until I
    std::uint32_t remade_inputs = program::kNone;  // and of products, until W
    // Of activations and inputs, what travels to the host.
    std::uint32_t moved = program::kNone;
    std::uint32_t moved_inputs = program::kNone;
  };
  struct Run {  // a pass of one micro-batch through a chunk, unit by unit
    schedule::Slot slot;
    std::size_t units = 0;  // opened so far
    std::size_t unit = 0;
    const std::vector<Item>* items = nullptr;  // of the unit that is open
    std::size_t next = 0;
    std::uint32_t temporary = program::kNone;
    Mark awaits = {};  // side by side: the collective that the next item needs
    Mark posted = {};  // side by side: what its next join waits for
  };
  void count_passes();
  int last_is(int done, int all) const;
  void run_slot(const schedule::Slot& slot);
  bool next_unit(Run& run);
  void open_forward(Run& run);
  void open_backward(Run& run);
  void make_again(const Unit& unit, Kept& kept);
  void recompute(int chunk, const Unit& unit, int micro_batch);
  void end_unit(Run& run);
  void end_of_pass(Run& run);
  bool advance(Run& run);

  // offload_activations.cpp: around every unit's passes, "visits" in their order on the rank.
  void plan_offload();
  struct Journey;
  Journey* journey(int chunk, std::size_t unit, int micro_batch);
  Kept& kept_of(const Move& m);
  int visit_of(const Run& run) const;
  void activations_before(const Run& run);
  void activations_after(const Run& run);
  void copy_out(Journey& j);
  void give_up(Journey& j);
  void copy_back(Journey& j);
  bool activations_on_drives() const;
  std::uint32_t host_activations(const Journey& j, program::Place at);
  void read_back(Journey& j);
  std::uint32_t users_of_moved(const Run& run);

  // pipeline.cpp, pipeline_order.cpp
  struct Message {
    bool needed = false;
    program::Transfer transfer;
  };
  Message receive_of(const schedule::Slot& slot) const;
  Message send_of(const schedule::Slot& slot) const;
  void exchange(const std::vector<Message>& messages);
  void after_receive(const std::vector<Message>& messages);
  void run_local();
  void run_blocking();
  void run_interleaved_blocking();
  void run_overlapped();
  bool megatron_forms() const;
  struct Neighbour {
    bool exists = false;
    int rank = 0;
    int chunk = 0;
  };
  Neighbour neighbour(int rank, int chunk, bool next) const;
  bool goes_up(int chunk) const;
  program::StreamIndex channel_stream(std::uint32_t role, const char* name);
  void follow_compute(program::StreamIndex stream);
  void make_inboxes();
  std::uint32_t message_key(int rank, const schedule::Slot& slot) const;
  void post_receives(std::size_t slot);
  void take_message(std::size_t slot);
  void send_message(const schedule::Slot& slot);
  void run_pair(const schedule::Slot& first, const schedule::Slot& second);
  void run_order();

  // vocabulary.cpp
  void add_vocabulary_rows();
  void plan_vocabulary();
  program::StreamIndex pipe_stream(Role role);
  Mark pipe_collective(Role role, cost::Collective op, std::int64_t bytes);
  void send_output(int micro_batch);
  void take_embedded_gradients(int but);
  void vocabulary_before(std::size_t slot);
  void run_vocabulary(const schedule::Slot& slot);
  void before_stage_ends(const schedule::Slot& slot);
  void after_stage_ends(const schedule::Slot& slot);
  void end_vocabulary();

  // data_parallel.cpp: the same calls around every unit's passes, whatever travels. Backward hooks
  // belong to the pass that makes weight gradients, B or W, but before_backward() to B or I.
  void make_data_parallel();
  bool travels() const;        // gradients or parameters, between any ranks or to the host
  bool wraps() const;          // units are gathered and reduced whole
  bool reduce_beside() const;  // beside compute
  bool gather_beside() const;
  bool last_backward(int chunk) const;
  bool reduces(int chunk) const;  // behind the backward pass that is under way
  Sharing sharing(bool expert) const;
  void before_forward(int chunk, std::size_t unit, int micro_batch);
  void after_forward(int chunk, std::size_t unit);
  void before_backward(int chunk, std::size_t unit);
  void before_second_use(int chunk, std::size_t unit);
  void after_backward(int chunk, std::size_t unit, int micro_batch);
  void end_of_backward(int chunk, int micro_batch);
  void data_kernel(program::StreamIndex stream, double bytes, cost::MemoryOp op, const char* label);
  void data_collective(program::StreamIndex stream, Role role, cost::Collective op, double bytes,
                       const char* what);
  void host_copy(program::StreamIndex stream, double bytes, cost::CopyDirection direction,
                 const char* label);

  // buckets.cpp
  bool bucketed(int chunk) const;
  bool sends_as_it_goes() const;
  bool always_in_buckets() const;
  void reduce_what_is_left();
  bool shards_states() const;
  bool copies_into_buckets() const;
  void reduce_gradients(std::int64_t elements, bool expert, program::StreamIndex stream);
  void flush_gradients(int chunk, program::StreamIndex stream);
  void fill_buckets(int chunk, std::size_t unit);
  void bucket_after_backward(int chunk, std::size_t unit);
  void bucket_end_of_backward(int chunk);
  void reduce_later_chunks(int slot);
  void gather_parameters(const Elements& elements, program::StreamIndex stream);
  void make_pieces();
  void gather_parameters_at_start();
  void issue_piece(ParameterPiece& piece);
  void issue_aligned_pieces();
  void wait_for_piece(int chunk, std::size_t unit);

  // fully_sharded.cpp
  void make_wraps();
  double whole_bytes(const Wrap& w) const;
  int partition_ranks() const;
  Elements reduced(const Wrap& w) const;
  bool drops_after_forward(const Wrap& w) const;
  bool drops_after_recompute(const Wrap& w) const;
  void gather_wrap(Wrap& w, bool backward);
  void use_wrap(Wrap& w, bool backward);
  void drop_wrap(Wrap& w, bool backward);
  void prefetch_wraps(std::size_t at, bool backward);
  void wrap_before_forward(int chunk, std::size_t unit);
  void wrap_after_forward(int chunk, std::size_t unit);
  void wrap_before_backward(int chunk, std::size_t unit);
  void make_fresh_gradients(int chunk, std::size_t unit);
  void wrap_after_backward(int chunk, std::size_t unit);
  void wrap_end_of_backward(int chunk);
  void reduce_wrap(Wrap& w);
  void reduce_due_wraps();
  void reduce_in_buckets(Wrap& w);
  void give_up_fresh(Wrap& w, std::uint32_t streams);
  void accumulate_whole(Wrap& w);
  void send_bucket(int chunk, bool expert);
  void make_sharded_gradients(Wrap& w);
  void reduce_shards(std::int64_t elements, bool expert, program::StreamIndex stream);
  void quantised_reduce(std::int64_t elements, program::StreamIndex stream);

  // offload_states.cpp
  void make_host_streams();
  // A movement of `bytes` beyond the GPU, behind what the stream and its waits hold; exposed, it
  // counts as `category`. Nothing is issued for less than a byte. Returns the stream's end.
  Mark copy(program::StreamIndex stream, Carrier by, double bytes, const char* label,
            program::Category category = program::Category::offload);
  double shard_bytes(const Wrap& w) const;
  double bytes_to_fetch(Wrap& w, bool Chunk::*mark);
  StateBytes held_states() const;
  StateBytes states_away() const;
  void make_host_states();
  void await_last_step(program::StreamIndex stream);
  void read_wrap(Wrap& w);
  void fetch_wrap(Wrap& w, const std::vector<Mark>& order);
  void fetch_ahead(std::size_t at, bool backward);
  void offload_gradients(double elements, program::StreamIndex stream);

  // offload_step.cpp
  static constexpr std::size_t kStepBuffers = 3;  // of pieces: read, stepped, written
  double state_width() const;
  std::vector<double> step_pieces() const;
  void bring_gradients_back();
  void step_on_host(double touched);

  // chunks.cpp
  bool chunked() const;
  bool paged() const;
  std::vector<Chunk>& stored();
  const std::vector<Chunk>& stored() const;
  void make_chunks();
  double shard_bytes(const Chunk& c) const;
  std::vector<Chunk*> chunks_of(const Wrap& w);
  std::vector<Chunk*> chunks_ended_by(const Wrap& w, bool backward);
  void gather_chunks(const Wrap& w, program::StreamIndex stream);
  void drop_chunks(const Wrap& w, bool backward);

  // tiles.cpp
  struct Tile {
    std::int64_t elements = 0;  // 0: there is none
    Mark gathered = {};
    std::uint32_t parameters = program::kNone;
    std::uint32_t gradient = program::kNone;
  };
  Tile gather_tile(std::int64_t elements);
  void next_tile(const Item& item);
  void give_up_tile();

  // optimizer.cpp
  void finish_step();
  void share_stage_gradients();
  void share_replica_gradients();
  double stepped_elements() const;
  double stepped_here() const;  // of those, on the device
  void norm_of_gradients();
  void pass_norm_on();
  bool validates_later() const;
  void optimizer_step();
  void orthogonalise(const StepCost& step);
  void gather_updated_parameters();

  // states.cpp
  Shares shares() const;
  std::vector<Array> stage_arrays() const;
  std::uint32_t hold(const std::vector<std::int64_t>& tensors, program::MemoryCategory category,
                     const char* label);
  void hold_more_parameters();
  bool has_experts() const;
  void hold_cast_weights(const std::vector<Array>& arrays);
  double bucket_buffers() const;  // elements
  std::int64_t dummy_gradients() const;
  std::int64_t scores_buffer() const;
  double width(job::DType t) const { return job::bytes_per_element(t); }
  bool fully_sharded() const { return plan_.data_comm == strategy::DataComm::shard_all; }

  const StageContext& context_;
  const strategy::Plan& plan_;
  const job::Job& job_;
  int stage_;
  Builder b_;
  std::vector<std::uint32_t> of_units_;
  std::int64_t launch_ = 0;
  std::int64_t overhead_ = 0;  // host time of a layer and pass beside its launches
  std::int64_t paced_ = 0;     // of one launch with its share of that, in the items being issued

  program::StreamIndex compute_ = 0;
  program::StreamIndex tensor_ = 0;
  program::StreamIndex tensor_column_ = 0;
  program::StreamIndex context_stream_ = 0;
  program::StreamIndex expert_stream_ = 0;
  std::uint32_t ring_key_ = 0;     // ring steps in program order: a mispairing is a detected fault
  program::StreamIndex data_ = 0;  // gradients; FSDP: reduce-scatter
  program::StreamIndex gather_ = 0;                   // FSDP: all-gather
  program::StreamIndex replicas_ = 0;                 // HSDP: all-reduce
  program::StreamIndex ticks_ = 0;                    // Horovod's background thread
  program::StreamIndex to_device_ = 0, to_host_ = 0;  // copies; the compute stream: no overlap
  program::StreamIndex nvme_read_ = 0, nvme_write_ = 0, cpu_ = 0;
  std::uint32_t awaited_ = 0;      // streams, as bits, that wait for the step before
  int reducing_ = 0;               // chunk whose gradients are being reduced
  program::StreamIndex norm_ = 0;  // a norm that the step does not wait for
  program::StreamIndex send_forward_ = 0, receive_forward_ = 0, send_backward_ = 0,
                       receive_backward_ = 0;

  std::vector<Passes> passes_;                  // owned, merged
  std::vector<std::vector<Unit>> units_;        // by chunk
  std::vector<std::vector<Unit>> whole_;        // the same for micro-batches that keep all
  std::vector<std::vector<bool>> keeps_whole_;  // by chunk and micro-batch; empty: none does
  Orders orders_;                               // optimal recomputation
  double recomputed_flops_ = 0;
  std::vector<std::vector<std::vector<Kept>>> kept_;  // [chunk][unit][micro-batch]
  bool splits_ = false;                               // this rank runs I and W
  struct Turns {                                      // of a chunk's passes
    int forward = 0;                                  // run so far
    int weights = 0;                                  // B and W in all
    int weights_done = 0;
  };
  std::vector<Turns> turns_;
  std::vector<program::StreamIndex> channel_streams_;  // by role; 0: none yet
  struct Inbound {
    std::size_t sent = 0;  // sender's slot
    std::size_t slot = 0;  // that waits for it
    std::size_t at = 0;    // slot before which it is posted
  };
  struct Inbox {  // of a channel, in the sender's order
    std::vector<Inbound> messages;
    std::size_t posted = 0;
  };
  struct Due {  // of what an order leaves unnamed
    double when = 0;
    std::size_t slot = 0;  // before which it comes
    int micro_batch = 0;
  };
  struct Vocabulary {
    std::vector<Due> embeds, outputs, embed_grads;
    std::size_t embeds_done = 0, outputs_done = 0, embed_grads_done = 0;
    std::vector<Mark> output_here, statistics, gradient_here, embedded;  // by micro-batch
    std::vector<std::uint32_t> saved, gradients;                         // buffers, likewise
    std::vector<std::pair<Mark, int>> arriving;  // gradients of embedded tokens, micro-batch
    std::vector<program::StreamIndex> streams;   // by role; 0: none yet
  };
  Vocabulary vocabulary_;
  // Activations that travel. A move's copies are issued and awaited in the order of its places.
  struct Journey {
    Move move;
    std::int64_t bytes = 0;
    std::int64_t inputs = 0;
    std::uint32_t host = program::kNone;
    std::uint32_t drive = program::kNone;
    Mark out = {};
    Mark out_of_host = {}, into_host = {};  // to and from the drives
    Mark back = {};
    bool drawn = false;  // from the drives, or on its way from there
    enum class Where { unmade, device, leaving, host, returning, back } where = Where::unmade;
  };
  std::vector<Journey> moves_;  // in the order in which they leave
  std::vector<std::vector<std::vector<std::int32_t>>>
      move_of_;                                           // [chunk][unit][micro-batch]; -1: stays
  std::vector<std::size_t> by_left_, by_fetch_, by_use_;  // moves_ in those orders
  std::size_t leaving_ = 0, left_ = 0, drawn_ = 0, fetched_ = 0, used_ = 0;  // done of each
  std::size_t reads_ = 0;                                                    // from the drives
  std::vector<Mark> written_, returned_;  // buffers of the host that were given up, oldest first
  int ended_ = -1, opened_ = -1;          // visits so far
  std::optional<Visits> visits_;
  program::StreamIndex copy_out_ = 0, copy_back_ = 0;
  std::vector<Inbox> inboxes_;  // by channel role
  std::vector<Mark> received_;  // by slot
  StageParameters parameters_;
  std::int64_t held_gradients_ = 0;  // bytes of main gradients that stand between steps
  DataParallelState data_parallel_;
  Tile tile_, tile_ahead_;
  std::vector<std::uint32_t> kept_inputs_;         // by chunk: see make_persistent_buffers
  std::uint32_t main_gradients_ = program::kNone;  // the optimizer's fp32 copy of 16-bit gradients
};

}  // namespace stepcast::lower
