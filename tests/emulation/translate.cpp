/* SPDX-License-Identifier: Apache-2.0 */
/* Three constructs of CUDA C++ have no C++ counterpart:
 *
 *   asm("mov.u32 %0, %%x; @p add …" : "=r"(a) : "r"(b))   becomes   [&] { auto &&o0 = (a); … ptx::mov_u32(o0, …); }()
 *   extern __shared__ T name[];                           becomes   static const shared_memory::dynamic_array<T>
 *   name;
 *   __shared__ T name[n];                                 becomes   a reference to memory that every block has
 *   __global__ void kernel(…)                             is listed, with its __launch_bounds__ and __cluster_dims__
 * */
#include "translate.h"

#include <cctype>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace emulation {

[[noreturn]] static void misunderstood(const std::string &what, const std::string &text)
{
  throw std::runtime_error("error: the emulation does not understand " + what + ": " + text.substr(0, 200));
}

static bool is_name(char c)
{
  return isalnum((unsigned char)c) || c == '_';
}

static std::string trimmed(const std::string &text)
{
  size_t first = text.find_first_not_of(" \t\n"), last = text.find_last_not_of(" \t\n");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

/* The position after the string or character literal that begins at `at`. */
static size_t behind_literal(const std::string &text, size_t at)
{
  char quote = text[at];
  for (at++; at < text.size() && text[at] != quote; at++)
    if (text[at] == '\\')
      at++;
  return at + 1;
}

/* The bracket that closes the one at `open`. */
static size_t closing(const std::string &text, size_t open)
{
  int depth = 0;
  for (size_t at = open; at < text.size();) {
    char c = text[at];
    if (c == '"' || c == '\'') {
      at = behind_literal(text, at);
      continue;
    }
    if (strchr("([{", c))
      depth++;
    if (strchr(")]}", c) && --depth == 0)
      return at;
    at++;
  }
  misunderstood("brackets that do not close", text.substr(open));
}

/* Splits at separators outside of brackets and literals. */
static std::vector<std::string> split(const std::string &text, char separator)
{
  std::vector<std::string> parts(1);
  for (size_t at = 0; at < text.size();) {
    size_t next = at + 1;
    if (text[at] == '"' || text[at] == '\'')
      next = behind_literal(text, at);
    else if (strchr("([{", text[at]))
      next = closing(text, at) + 1;
    else if (text[at] == separator) {
      parts.emplace_back();
      at++;
      continue;
    }
    parts.back() += text.substr(at, next - at);
    at = next;
  }
  return parts;
}

/* ---- inline PTX ---- */

/* The text of adjacent string literals, joined. */
static std::string literal_text(const std::string &source)
{
  std::string text;
  for (size_t at = source.find('"'); at != std::string::npos; at = source.find('"', at)) {
    size_t end = behind_literal(source, at);
    for (at++; at + 1 < end; at++) {
      if (source[at] != '\\')
        text += source[at];
      else if (source[++at] == 'n')
        text += '\n';
      else if (source[at] == 't')
        text += ' ';
      else
        text += source[at];
    }
    at = end;
  }
  return text;
}

/* "f16x2" and "mma.sync.m16n8k16" as a function's name; a shape in it is moved to `shape`. */
static std::string function_of(const std::string &instruction, std::string &shape)
{
  std::string name;
  for (const std::string &part : split(instruction, '.')) {
    unsigned m, n, k;
    int length = 0;
    if (sscanf(part.c_str(), "m%un%uk%u%n", &m, &n, &k, &length) == 3 && (size_t)length == part.size()) {
      shape = "ptx::shape<" + std::to_string(m) + ", " + std::to_string(n) + ", " + std::to_string(k) + ">()";
      continue;
    }
    name += name.empty() ? "" : "_";
    for (char c : part)
      name += is_name(c) ? c : '_';
  }
  return name;
}

/* An operand as an argument: %0 is o0, %%name a special register, {…} a list, [a, {…}] its parts. */
static std::string argument_of(const std::string &operand)
{
  std::string text = trimmed(operand);
  if (text.empty())
    misunderstood("an operand", operand);
  if (text[0] == '[' || text[0] == '{') {
    std::string inside;
    for (const std::string &part : split(text.substr(1, closing(text, 0) - 1), ','))
      inside += (inside.empty() ? "" : ", ") + argument_of(part);
    return text[0] == '[' ? inside : "ptx::list(" + inside + ")";
  }
  if (text == "_")
    return "ptx::nowhere()";
  std::string result;
  for (size_t at = 0; at < text.size(); at++) {
    if (text.compare(at, 2, "%%") == 0) {
      std::string name;
      for (at += 2; at < text.size() && (is_name(text[at]) || text[at] == '.'); at++)
        name += text[at] == '.' ? '_' : text[at];
      return "ptx::special_" + name + "()";
    }
    result += text[at] == '%' ? 'o' : text[at];
  }
  return result;
}

static std::string type_of(const std::string &kind)
{
  if (kind == ".pred")
    return "bool";
  if (kind == ".f32")
    return "float";
  if (kind == ".b64" || kind == ".u64")
    return "unsigned long long";
  if (kind == ".b32" || kind == ".u32" || kind == ".s32")
    return "unsigned";
  if (kind == ".b16" || kind == ".u16")
    return "unsigned short";
  misunderstood("a register's type", kind);
}

/* One statement without its semicolon. */
static std::string translate_statement(const std::string &source)
{
  std::string text = trimmed(source), result;
  if (text.compare(0, 5, ".reg ") == 0) {
    size_t kind = text.find('.', 4), end = text.find(' ', kind);
    return type_of(text.substr(kind, end - kind)) + " " + trimmed(text.substr(end)) + " = {};";
  }
  if (text[0] == '@') {
    size_t end = text.find_first_of(" \t\n");
    std::string guard = text.substr(1, end - 1);
    result = "if (" + argument_of(guard) + ") ";
    text = trimmed(text.substr(end));
  }
  size_t end = text.find_first_of(" \t\n");
  std::string instruction = text.substr(0, end), operands = end == std::string::npos ? "" : text.substr(end), shape;
  if (instruction == "bra")
    return result + "goto " + trimmed(operands) + ";";
  std::string name = function_of(instruction, shape), arguments = shape;
  for (const std::string &operand : split(operands, ','))
    if (!trimmed(operand).empty())
      arguments += (arguments.empty() ? "" : ", ") + argument_of(operand);
  return result + "ptx::" + name + "(" + arguments + ");";
}

/* Statements, scopes and labels. */
static std::string translate_ptx(const std::string &ptx)
{
  std::string result;
  for (size_t at = 0; at < ptx.size();) {
    if (isspace((unsigned char)ptx[at]) || ptx[at] == ';') {
      at++;
      continue;
    }
    if (ptx[at] == '{' || ptx[at] == '}') {
      result += ptx[at++];
      continue;
    }
    size_t end = at;
    while (end < ptx.size() && is_name(ptx[end]))
      end++;
    if (end < ptx.size() && ptx[end] == ':' && ptx[end + 1] != ':') {
      result += ptx.substr(at, end + 1 - at) + ";";
      at = end + 1;
      continue;
    }
    end = ptx.find(';', at);
    if (end == std::string::npos)
      misunderstood("an instruction without an end", ptx.substr(at));
    result += translate_statement(ptx.substr(at, end - at));
    at = end;
  }
  return result;
}

/* Translates the text between the parentheses of asm(…). */
static std::string translate_asm(const std::string &inside)
{
  std::vector<std::string> parts = split(inside, ':');
  std::string bindings;
  int count = 0;
  for (size_t i = 1; i < parts.size() && i < 3; i++)
    for (const std::string &operand : split(parts[i], ',')) {
      size_t open = operand.find('(');
      if (trimmed(operand).empty())
        continue;
      if (open == std::string::npos)
        misunderstood("an operand of asm", operand);
      bindings += "auto &&o" + std::to_string(count++) + " = " + operand.substr(open) + ";";
    }
  std::string lines; /* keeps the line numbers of the text after it */
  for (char c : inside)
    lines += c == '\n' ? "\n" : "";
  return "[&] {" + bindings + translate_ptx(literal_text(parts[0])) + "}()" + lines;
}

/* ---- declarations ---- */

/* `T name[n]` without attributes: type, name and dimensions. */
struct declaration {
  std::string type, name, dimensions;
};

static declaration read_declaration(const std::string &text)
{
  declaration d;
  std::string plain = text;
  for (size_t at = plain.find("__align__"); at != std::string::npos; at = plain.find("__align__")) {
    size_t open = plain.find('(', at);
    d.type += "alignas" + plain.substr(open, closing(plain, open) + 1 - open) + " ";
    plain.erase(at, closing(plain, open) + 1 - at);
  }
  size_t bracket = plain.find('['), end = bracket == std::string::npos ? plain.size() : bracket;
  d.dimensions = bracket == std::string::npos ? "" : trimmed(plain.substr(bracket));
  while (end > 0 && isspace((unsigned char)plain[end - 1]))
    end--;
  size_t begin = end;
  while (begin > 0 && is_name(plain[begin - 1]))
    begin--;
  d.name = plain.substr(begin, end - begin);
  d.type = trimmed(plain.substr(0, begin));
  if (d.name.empty() || d.type.empty())
    misunderstood("a declaration of shared memory", text);
  return d;
}

static std::string translate_shared(const std::string &text, bool is_extern)
{
  declaration d = read_declaration(text);
  if (is_extern)
    return "static const shared_memory::dynamic_array<" + d.type + "> " + d.name + ";";
  std::string tag = d.name + "_tag", type = d.name + "_type";
  return "struct " + tag + " {}; typedef " + d.type + " " + type + d.dimensions + "; " + type + " &" + d.name +
         " = *(" + type + " *)emulation::static_shared(emulation::static_variable<" + type + ", " + tag + ">::place);";
}

/* Turns `__launch_bounds__(most, …) __cluster_dims__(x, y, z) void name(` into an entry of the list of kernels. */
static std::string kernel_entry(const std::string &text, size_t at, size_t &name_at)
{
  std::string most = "0", cluster[3] = {"1", "1", "1"};
  for (;;) {
    while (isspace((unsigned char)text[at]))
      at++;
    size_t end = at;
    while (is_name(text[end]))
      end++;
    std::string word = text.substr(at, end - at);
    if (word.empty())
      misunderstood("a kernel", text.substr(at));
    while (isspace((unsigned char)text[end]))
      end++;
    if (text[end] != '(') {
      at = end;
      continue;
    }
    if (word != "__launch_bounds__" && word != "__cluster_dims__") {
      name_at = at;
      return "{\"" + word + "\", emulation::call<&" + word + ">, emulation::caller<decltype(&" + word +
             ")>::sizes, (unsigned)(" + most + "), {(unsigned)(" + cluster[0] + "), (unsigned)(" + cluster[1] +
             "), (unsigned)(" + cluster[2] + ")}},\n";
    }
    size_t close = closing(text, end);
    std::vector<std::string> values = split(text.substr(end + 1, close - end - 1), ',');
    if (word == "__launch_bounds__")
      most = values[0];
    for (size_t i = 0; word == "__cluster_dims__" && i < values.size() && i < 3; i++)
      cluster[i] = values[i];
    at = close + 1;
  }
}

/* ---- the program ---- */

class translator {
public:
  explicit translator(const std::string &program) : in(program)
  {
  }

  std::string run()
  {
    while (at < in.size())
      step();
    return out + "\nextern \"C\" const emulation::kernel emulation_kernels[] = {\n" + kernels + "{}};\n";
  }

private:
  const std::string &in;
  size_t at = 0;
  std::string out, kernels;

  void step()
  {
    if (in[at] == '#' && (at == 0 || in[at - 1] == '\n')) {
      copy_to(in.find('\n', at));
    } else if (in[at] == '"' || in[at] == '\'') {
      copy_to(behind_literal(in, at));
    } else if (!is_name(in[at])) {
      copy_to(at + 1);
    } else {
      size_t end = at;
      while (end < in.size() && is_name(in[end]))
        end++;
      take_word(in.substr(at, end - at), end);
    }
  }

  void copy_to(size_t end)
  {
    end = end < in.size() ? end : in.size();
    out += in.substr(at, end - at);
    at = end;
  }

  std::string next_word(size_t from, size_t &end) const
  {
    while (from < in.size() && isspace((unsigned char)in[from]))
      from++;
    end = from;
    while (end < in.size() && is_name(in[end]))
      end++;
    return in.substr(from, end - from);
  }

  void take_word(const std::string &word, size_t end)
  {
    size_t behind;
    if (word == "asm")
      take_asm(end);
    else if (word == "extern" && next_word(end, behind) == "__shared__")
      take_shared(behind, true);
    else if (word == "__shared__")
      take_shared(end, false);
    else if (word == "__global__")
      take_kernel(end);
    else
      copy_to(end);
  }

  void take_asm(size_t end)
  {
    if (next_word(end, end) == "volatile") {
    }
    size_t open = in.find('(', end), close = closing(in, open);
    out += translate_asm(in.substr(open + 1, close - open - 1));
    at = close + 1;
  }

  void take_shared(size_t from, bool is_extern)
  {
    size_t end = in.find(';', from);
    if (end == std::string::npos)
      misunderstood("a declaration of shared memory", in.substr(from));
    out += translate_shared(in.substr(from, end - from), is_extern);
    at = end + 1;
  }

  void take_kernel(size_t from)
  {
    size_t name_at;
    kernels += kernel_entry(in, from, name_at);
    out += "void ";
    at = name_at;
  }
};

std::string translate(const std::string &program)
{
  return translator(program).run();
}

} // namespace emulation
