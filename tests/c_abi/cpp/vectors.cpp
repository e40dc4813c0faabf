// Overlaps and the edges of graphs, from C++: `PROGRAM REQUESTS ANSWERS`, a line each.
#include <algorithm>
#include <charconv>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bufabi/bufabi.hpp>

namespace {

bufabi::Tensor unhex(std::string_view digits) {
    bufabi::Tensor tensor{};
    auto *bytes = reinterpret_cast<unsigned char *>(&tensor);
    for (std::size_t i = 0; i < sizeof tensor && 2 * i + 2 <= digits.size(); ++i)
        std::from_chars(digits.data() + 2 * i, digits.data() + 2 * i + 2, bytes[i], 16);
    return tensor;
}

std::string overlap(const bufabi::Tensor &first, const bufabi::Tensor &second) {
    switch (bufabi::relate(first, second).value()) {
    case bufabi::Relation::disjoint: return "0 0";
    case bufabi::Relation::overlapping: return "1 0";
    case bufabi::Relation::covering: return "1 1";
    case bufabi::Relation::may_overlap: return "unknown";
    }
    return "no relation";
}

// The edges of the next task: each member's arguments in a list of its own.
std::string task(const bufabi::Tracker &tracker, std::uint64_t number, std::istringstream &words) {
    std::vector<bufabi::TaskArgs> members;
    members.push_back(bufabi::TaskArgs::create().value());
    for (std::string word; words >> word;) {
        if (word == "|") {
            members.push_back(bufabi::TaskArgs::create().value());
        } else {
            members.back().add(unhex(std::string_view(word).substr(2)), static_cast<bufabi::Tag>(word[0] - '0')).value();
        }
    }
    std::vector<bufabi_task_args_t> handles;
    for (const auto &member : members) handles.push_back(member.raw());
    const auto submitted = tracker.submit_group(number, handles).value();
    std::vector<std::pair<std::int32_t, std::uint64_t>> before;
    for (const auto &edge : submitted.edges) before.emplace_back(edge.hazard, edge.task);
    std::sort(before.begin(), before.end());
    static constexpr const char *names[] = {"raw", "waw", "war"};
    std::string text;
    for (const auto &[hazard, task] : before)
        text += (text.empty() ? "" : " ") + std::string(names[hazard]) + ':' + std::to_string(task);
    return text;
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    std::ifstream requests(argv[1]);
    std::ofstream answers(argv[2]);
    bufabi::Tracker tracker;
    std::uint64_t number = 0;
    try {
        for (std::string line; std::getline(requests, line);) {
            std::istringstream words(line);
            std::string what, first, second;
            words >> what;
            if (what == "overlap") {
                words >> first >> second;
                answers << overlap(unhex(first), unhex(second)) << '\n';
            } else if (what == "graph") {
                tracker = bufabi::Tracker::create(64).value();
                number = 0;
                answers << "ok\n";
            } else {
                answers << task(tracker, number++, words) << '\n';
            }
        }
    } catch (const bufabi::Error &error) {
        std::cerr << error.what() << '\n';
        return 1;
    }
}
