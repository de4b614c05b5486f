// A torch.distributed backend for CPU tensors over oneCCL, for ranks on one machine.
//
// Collectives run one after the other on a thread of the group's own, in the order in which they were called. It asks oneCCL
// whether each is done, until the group's timeout: oneCCL by itself would wait for ever for a peer that is gone. Ranks meet by
// torch's own store, so that nothing listens on a port.

#include <pybind11/chrono.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/utils/pybind.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <map>
#include <oneapi/ccl.hpp>
#include <thread>

using at::Tensor;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;
constexpr Milliseconds kAfterTheEnd(500);  // for what is under way when a group is taken down, as by an error

namespace {

// What a cell asked for and cannot be had is a ValueError; what befalls the ranks together is an error of communication.
template <typename... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  C10_THROW_ERROR(ValueError, c10::str("--backend ccl: ", parts...));
}

template <typename... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  C10_THROW_ERROR(DistBackendError, c10::str("oneCCL: ", parts...));
}

// oneCCL's own store is a listening socket; this one is torch's. A key that is not there yet is empty: oneCCL asks again.
class StoreOfTorch final : public ccl::kvs_interface {
 public:
  StoreOfTorch(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}
  ccl::vector_class<char> get(const ccl::string_class& key) override {
    if (!store_->check({key})) return {};
    auto value = store_->get(key);
    return {value.begin(), value.end()};
  }
  void set(const ccl::string_class& key, const ccl::vector_class<char>& value) override {
    store_->set(key, std::vector<uint8_t>(value.begin(), value.end()));
  }
  int get_id() override { return 0; }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
};

class CclWork final : public c10d::Work {
 public:
  CclWork(int rank, c10d::OpType kind, const char* title, std::vector<Tensor> inputs, std::vector<Tensor> outputs)
      : Work(rank, kind, title, inputs),
        outputs_(std::move(outputs)),
        future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {}
  std::vector<Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  void end(std::exception_ptr error) {
    if (error) future_->setError(error);
    else future_->markCompleted(at::IValue(outputs_));
    finish(error);
  }

 private:
  std::vector<Tensor> outputs_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

struct Collective {
  c10::intrusive_ptr<CclWork> work;
  std::string name;
  std::function<ccl::event(const ccl::communicator&)> start;
  std::function<void()> finish;
};

ccl::datatype type_of(const Tensor& tensor) {
  static const std::map<at::ScalarType, ccl::datatype> types = {
      {at::kFloat, ccl::datatype::float32},     {at::kDouble, ccl::datatype::float64}, {at::kHalf, ccl::datatype::float16},
      {at::kBFloat16, ccl::datatype::bfloat16}, {at::kChar, ccl::datatype::int8},      {at::kByte, ccl::datatype::uint8},
      {at::kShort, ccl::datatype::int16},       {at::kInt, ccl::datatype::int32},      {at::kLong, ccl::datatype::int64},
  };
  auto found = types.find(tensor.scalar_type());
  if (found == types.end()) refuse("it cannot add up tensors of ", tensor.scalar_type(), "; use gloo for them");
  return found->second;
}

ccl::reduction reduction_of(const c10d::ReduceOp& op) {
  switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
    case c10d::ReduceOp::AVG:  // the sum, divided afterwards
    case c10d::ReduceOp::SUM: return ccl::reduction::sum;
    case c10d::ReduceOp::PRODUCT: return ccl::reduction::prod;
    case c10d::ReduceOp::MIN: return ccl::reduction::min;
    case c10d::ReduceOp::MAX: return ccl::reduction::max;
    default: refuse("it has sum, avg, product, min and max, and no other reduction; use gloo for that");
  }
}

const Tensor& checked(const Tensor& tensor) {
  if (!tensor.device().is_cpu() || tensor.is_sparse()) refuse("it takes dense tensors on the CPU only");
  return tensor;
}

Tensor& only(std::vector<Tensor>& tensors) {
  if (tensors.size() != 1) refuse("a collective takes one tensor of each rank");
  checked(tensors[0]);
  return tensors[0];
}

class CclBackend final : public c10d::Backend {
 public:
  CclBackend(
      const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, Milliseconds timeout, Milliseconds until_met)
      : Backend(rank, size), state_(std::make_shared<State>()) {
    state_->timeout = timeout;
    std::promise<void> met;
    auto is_met = met.get_future();
    thread_ = std::thread([state = state_, store, rank, size, met = std::move(met)]() mutable {
      try {
        state->group.emplace(ccl::create_communicator(size, rank, std::make_shared<StoreOfTorch>(store)));
        met.set_value();
      } catch (...) {
        met.set_exception(std::current_exception());
        return;
      }
      run(*state);
    });
    try {
      if (is_met.wait_for(until_met) != std::future_status::ready) fail("the ranks did not meet within ", until_met.count(), " ms");
      is_met.get();
    } catch (...) {  // a thread that is still meeting cannot be ended, only the process
      thread_.detach();
      throw;
    }
  }

  ~CclBackend() override {
    {
      std::lock_guard lock(state_->mutex);
      state_->is_over = true;
    }
    state_->changed.notify_one();
    if (PyGILState_Check()) {  // a hook of the user's may need it to end
      py::gil_scoped_release released;
      thread_.join();
    } else {
      thread_.join();
    }
  }

  const std::string getBackendName() const override { return "ccl"; }
  void setTimeout(Milliseconds timeout) override {
    std::lock_guard lock(state_->mutex);
    state_->timeout = timeout;
  }

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<Tensor>& tensors, const c10d::AllreduceOptions& options) override {
    auto tensor = only(tensors), dense = tensor.contiguous();
    auto type = type_of(tensor);
    auto reduction = reduction_of(options.reduceOp);
    int64_t parts = options.reduceOp == c10d::ReduceOp::AVG ? size_ : 1;
    return later(
        c10d::OpType::ALLREDUCE, "ccl:all_reduce", {tensor}, {tensor},
        [=](const auto& group) { return ccl::allreduce(dense.data_ptr(), dense.data_ptr(), dense.numel(), type, reduction, group); },
        [=] { put_back(dense, tensor, parts); });
  }

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<Tensor>& tensors, const c10d::BroadcastOptions& options) override {
    auto tensor = only(tensors), dense = tensor.contiguous();
    int root = static_cast<int>(options.rootRank);
    return later(
        c10d::OpType::BROADCAST, "ccl:broadcast", {tensor}, {tensor},
        [=](const auto& group) { return ccl::broadcast(dense.data_ptr(), dense.nbytes(), ccl::datatype::uint8, root, group); },
        [=] { put_back(dense, tensor, 1); });
  }

  c10::intrusive_ptr<c10d::Work> allgather(
      std::vector<std::vector<Tensor>>& outputs, std::vector<Tensor>& inputs, const c10d::AllgatherOptions&) override {
    auto input = only(inputs).contiguous();
    if (outputs.size() != 1 || outputs[0].size() != static_cast<size_t>(size_)) refuse("all_gather needs a tensor for each rank");
    if (input.numel() == 0) refuse("all_gather needs a tensor with something in it");
    auto targets = outputs[0];
    for (auto& each : targets)
      if (checked(each).nbytes() != input.nbytes()) refuse("all_gather needs tensors of the same size on all ranks");
    auto flat = at::empty({size_, static_cast<int64_t>(input.nbytes())}, at::kByte);
    return later(c10d::OpType::ALLGATHER, "ccl:all_gather", {input}, targets, gathering(input, flat), [=] {
      for (int rank = 0; rank < static_cast<int>(targets.size()); ++rank)
        put_back(flat[rank].view(input.scalar_type()).view(input.sizes()), targets[rank].view(input.sizes()), 1);
    });
  }

  c10::intrusive_ptr<c10d::Work> _allgather_base(Tensor& output, Tensor& input, const c10d::AllgatherOptions&) override {
    auto sent = checked(input).contiguous(), dense = checked(output).contiguous();
    if (dense.nbytes() != sent.nbytes() * size_) refuse("all_gather_into_tensor needs an output of all ranks' inputs together");
    auto target = output;
    return later(c10d::OpType::_ALLGATHER_BASE, "ccl:_all_gather_base", {input}, {output}, gathering(sent, dense),
                 [=] { put_back(dense, target, 1); });
  }

  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(
      Tensor& output, Tensor& input, const c10d::ReduceScatterOptions& options) override {
    auto sent = checked(input).contiguous(), dense = checked(output).contiguous();
    if (sent.nbytes() != dense.nbytes() * size_) refuse("reduce_scatter_tensor needs an input of all ranks' outputs together");
    auto target = output;
    auto type = type_of(sent);
    auto reduction = reduction_of(options.reduceOp);
    int64_t parts = options.reduceOp == c10d::ReduceOp::AVG ? size_ : 1;
    return later(
        c10d::OpType::_REDUCE_SCATTER_BASE, "ccl:_reduce_scatter_base", {input}, {output},
        [=](const auto& group) {
          return ccl::reduce_scatter(sent.data_ptr(), dense.data_ptr(), dense.numel(), type, reduction, group);
        },
        [=] { put_back(dense, target, parts); });
  }

  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions&) override {
    auto token = at::zeros({1}, at::kInt);
    return later(
        c10d::OpType::BARRIER, "ccl:barrier", {}, {token},
        [=](const auto& group) {
          return ccl::allreduce(token.data_ptr(), token.data_ptr(), 1, ccl::datatype::int32, ccl::reduction::sum, group);
        },
        [] {});
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Collective> waiting;
    std::optional<ccl::communicator> group;
    std::exception_ptr broken;
    Milliseconds timeout;
    std::atomic<bool> is_over = false;
  };

  static void put_back(const Tensor& from, const Tensor& to, int64_t parts) {
    at::NoGradGuard no_grad;
    if (from.data_ptr() != to.data_ptr()) to.copy_(from);
    if (parts > 1) at::isFloatingType(to.scalar_type()) ? to.div_(parts) : to.div_(parts, "trunc");
  }

  static std::function<ccl::event(const ccl::communicator&)> gathering(const Tensor& from, const Tensor& to) {
    return [=](const auto& group) {
      return ccl::allgather(from.data_ptr(), to.data_ptr(), from.nbytes(), ccl::datatype::uint8, group);
    };
  }

  c10::intrusive_ptr<c10d::Work> later(
      c10d::OpType kind, const char* title, std::vector<Tensor> inputs, std::vector<Tensor> outputs,
      std::function<ccl::event(const ccl::communicator&)> start, std::function<void()> finish) {
    auto work = c10::make_intrusive<CclWork>(rank_, kind, title, std::move(inputs), std::move(outputs));
    {
      std::lock_guard lock(state_->mutex);
      state_->waiting.push_back({work, title, std::move(start), std::move(finish)});
    }
    state_->changed.notify_one();
    return work;
  }

  static void run(State& state) {
    while (true) {
      Collective next;
      Milliseconds timeout;
      {
        std::unique_lock lock(state.mutex);
        state.changed.wait(lock, [&] { return state.is_over || !state.waiting.empty(); });
        if (state.waiting.empty()) return;
        next = std::move(state.waiting.front());
        state.waiting.pop_front();
        timeout = state.timeout;
      }
      if (!state.broken) {
        try {
          run_one(next, state, timeout);
        } catch (...) {
          state.broken = std::current_exception();  // the ranks are out of step from here on
          static auto* kept = new std::deque<ccl::communicator>();  // what is still under way may use it: never freed
          kept->push_back(std::move(*state.group));
        }
      }
      next.work->end(state.broken);
    }
  }

  static void run_one(const Collective& next, State& state, Milliseconds timeout) {
    auto event = next.start(*state.group);
    auto until = Clock::now() + timeout;
    for (int looks = 0; !event.test(); ++looks) {
      if (state.is_over && until > Clock::now() + kAfterTheEnd) until = Clock::now() + kAfterTheEnd;
      if (Clock::now() > until) {
        static auto* kept = new std::deque<std::pair<Collective, ccl::event>>();  // their memory may still be written to
        kept->emplace_back(next, std::move(event));
        fail("Timed out waiting ", timeout.count(), " ms for the other ranks in ", next.name);
      }
      if (looks < 100) std::this_thread::yield();
      else std::this_thread::sleep_for(std::chrono::microseconds(looks < 1000 ? 20 : 200));
    }
    next.finish();
  }

  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.def("load", [] { ccl::init(); }, py::call_guard<py::gil_scoped_release>());
  module.def("version", [] { return std::string(ccl::get_library_version().full); });
  module.def(
      "create",
      [](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, Milliseconds timeout, Milliseconds until_met) {
        return c10::intrusive_ptr<c10d::Backend>(c10::make_intrusive<CclBackend>(store, rank, size, timeout, until_met));
      },
      py::call_guard<py::gil_scoped_release>());
}
