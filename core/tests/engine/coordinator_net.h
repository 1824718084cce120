// Coordinators that exchange messages over simulated links.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/negotiate/coordinator.h"

namespace xoe::engine {

struct CoordinatorNet {
  CoordinatorNet(int hosts, CoordinatorOptions options) : decisions(static_cast<std::size_t>(hosts)) {
    for (int host = 0; host < hosts; ++host) coordinators.emplace_back(host, hosts, options);
  }

  int hosts() const { return static_cast<int>(coordinators.size()); }
  Coordinator& at(int host) { return coordinators[static_cast<std::size_t>(host)]; }
  std::vector<Decision>& decided(int host) { return decisions[static_cast<std::size_t>(host)]; }

  // Sends all messages that `host` has ready.
  void post(int host) {
    for (Outgoing& message : at(host).take_messages()) {
      ++messages;
      bytes += message.bytes.size();
      largest = std::max(largest, message.bytes.size());
      for (const int end : {host, message.to_host}) bytes_of[end] += message.bytes.size();
      links[{host, message.to_host}].push_back(std::move(message.bytes));
    }
  }

  void post_all() {
    for (int host = 0; host < hosts(); ++host) post(host);
  }

  // The oldest message of one link arrives.
  void deliver(std::pair<int, int> link) {
    auto found = links.find(link);
    const std::vector<std::byte> message = std::move(found->second.front());
    found->second.pop_front();
    if (found->second.empty()) links.erase(found);
    const Status status = at(link.second).receive(link.first, message);
    ASSERT_TRUE(status) << status.error().message();
    collect(link.second);
  }

  void collect(int host) {
    for (Decision& decision : at(host).take_decisions()) decided(host).push_back(std::move(decision));
  }

  // One hop: messages under way arrive, and the receivers send their answers.
  void hop() {
    std::vector<std::pair<int, int>> all;
    for (const auto& [link, queue] : links) all.insert(all.end(), queue.size(), link);
    for (const auto& link : all) deliver(link);
    post_all();
  }

  // Delivers messages and decides until nothing moves any more. Returns the number of hops.
  int run(std::uint64_t knobs = 0) {
    int hops = 0;
    post_all();
    while (true) {
      at(0).flush(knobs);
      collect(0);
      post_all();
      if (links.empty() && !at(0).has_ready()) return hops;
      ++hops;
      hop();
      if (::testing::Test::HasFatalFailure()) return hops;
    }
  }

  void ready_everywhere(const std::string& name, std::uint64_t signature = 1) {
    for (int host = 0; host < hosts(); ++host) at(host).ready(name, signature, name + "?");
  }

  void forget_counts() {
    messages = bytes = largest = 0;
    bytes_of.clear();
  }
  // Sent and received by the host that has most.
  std::size_t most_bytes_of_a_host() const {
    std::size_t most = 0;
    for (const auto& [host, count] : bytes_of) most = std::max(most, count);
    return most;
  }

  std::deque<Coordinator> coordinators;
  std::vector<std::vector<Decision>> decisions;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> links;
  std::size_t messages = 0;
  std::size_t bytes = 0;
  std::size_t largest = 0;
  std::map<int, std::size_t> bytes_of;  // by host
};

inline bool operator==(const DecidedTensor& a, const DecidedTensor& b) {
  return a.name() == b.name() && a.signature == b.signature && a.text() == b.text() && a.error == b.error;
}

inline bool operator==(const Decision& a, const Decision& b) {
  return a.sequence == b.sequence && a.knobs == b.knobs && a.tensors == b.tensors && a.joined == b.joined;
}

}  // namespace xoe::engine
