/* SPDX-License-Identifier: Apache-2.0 */
/* NVRTC's interface over the host's C++ compiler: an image is a shared library of the host with its length in front.
 *
 * CMake defines EMULATION_COMPILER, EMULATION_FLAGS and EMULATION_LINK_FLAGS, EMULATION_SOURCES (the folder of
 * device.h) and EMULATION_DRIVER (the library to link with). */
#include "image.h"
#include "translate.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

extern "C" {
#include "runtime/cuda/driver/nvrtc.h"
}

struct rtc_program_st {
  std::string source, name, log, image;
  std::map<std::string, std::string> headers;
};

namespace {

using emulation::image_header;

/* HEADROOM_EMULATED_FAULT holds two texts with FAULT_BETWEEN between them: every occurrence of the first in a program
 * is replaced by the second, so that tests can plant a mistake. */
constexpr const char *FAULT_BETWEEN = "\n=>\n";

std::string planted_fault()
{
  const char *fault = getenv("HEADROOM_EMULATED_FAULT");
  return fault ? fault : "";
}

void plant(std::string &text, unsigned &count)
{
  std::string fault = planted_fault();
  size_t between = fault.find(FAULT_BETWEEN);
  if (between == std::string::npos)
    return;
  std::string right = fault.substr(0, between), wrong = fault.substr(between + strlen(FAULT_BETWEEN));
  for (size_t at = text.find(right); at != std::string::npos; at = text.find(right, at + wrong.size())) {
    text.replace(at, right.size(), wrong);
    count++;
  }
}

/* Adds the headers that `text` includes, and those that they include. */
void find_included(const rtc_program_st &program, const std::string &text, std::set<std::string> &found)
{
  const std::string include = "#include \"";
  for (size_t at = text.find(include); at != std::string::npos; at = text.find(include, at + 1)) {
    size_t begin = at + include.size(), end = text.find('"', begin);
    auto header = program.headers.find(text.substr(begin, end - begin));
    if (header != program.headers.end() && found.insert(header->first).second)
      find_included(program, header->second, found);
  }
}

void plant_everywhere(rtc_program_st &program)
{
  unsigned count = 0;
  std::set<std::string> included;
  find_included(program, program.source, included);
  plant(program.source, count);
  for (auto &[name, text] : program.headers)
    if (included.count(name) > 0)
      plant(text, count);
  if (count > 1)
    throw std::runtime_error("error: HEADROOM_EMULATED_FAULT has " + std::to_string(count) + " places in " +
                             program.name);
}

std::string read_file(const std::string &path)
{
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_file(const std::string &path, const std::string &text)
{
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1))
    mkdir(path.substr(0, slash).c_str(), 0700);
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush())
    throw std::runtime_error("error: " + path + " cannot be written");
}

/* A temporary folder that is deleted with the object. */
struct scratch {
  std::string path;

  scratch()
  {
    const char *base = getenv("TMPDIR");
    path = std::string(base && *base ? base : "/tmp") + "/headroom-emulation-XXXXXX";
    if (!mkdtemp(path.data()))
      throw std::runtime_error("error: no folder for temporary files");
  }

  ~scratch()
  {
    run("rm -rf '" + path + "'");
  }

  /* Runs a shell command; true if it succeeds. */
  static bool run(const std::string &command)
  {
    return system(command.c_str()) == 0;
  }
};

/* "--gpu-architecture=sm_90a" becomes __CUDA_ARCH__=900; -D options are passed on; all others are ignored. */
std::string definitions(int count, const char *const *options)
{
  std::string text = " -D__CUDACC__ -D__CUDACC_RTC__ -D__device__= -D__host__= -D__forceinline__=inline"
                     " -D__grid_constant__= -D__restrict__=";
  for (int i = 0; i < count; i++) {
    const char *architecture = strstr(options[i], "--gpu-architecture=sm_");
    if (architecture)
      text += " -D__CUDA_ARCH__=" + std::to_string(atoi(strchr(architecture, '_') + 1)) + "0";
    else if (strncmp(options[i], "-D", 2) == 0)
      text += std::string(" '") + options[i] + "'";
  }
  return text;
}

#define LANGUAGE " -std=c++17 -x c++ -w"
#define CODE                                                                                  \
  " -c -O1 -fPIC -fsanitize=thread,alignment -fno-exceptions -fno-rtti -fno-strict-aliasing " \
  "-ffp-contract=fast -fexpensive-optimizations " EMULATION_FLAGS

/* NVRTC merges products with additions; so does the host's compiler, where its processor can. */
const char *merging()
{
#if defined(__x86_64__)
  return __builtin_cpu_supports("fma") ? " -mfma" : "";
#else
  return "";
#endif
}

void compile(rtc_program_st &program, int count, const char *const *options)
{
  scratch folder;
  const std::string &at = folder.path;
  auto attempt = [&](const std::string &command) {
    if (scratch::run(EMULATION_COMPILER LANGUAGE + command + " >'" + at + "/log' 2>&1"))
      return;
    throw std::runtime_error(read_file(at + "/log"));
  };
  plant_everywhere(program);
  for (const auto &[name, text] : program.headers)
    write_file(at + "/" + name, text);
  write_file(at + "/" + program.name, program.source);
  attempt(" -E -I'" + at + "'" + definitions(count, options) + " -o '" + at + "/plain' '" + at + "/" + program.name +
          "'");
  write_file(at + "/program.cpp", emulation::translate(read_file(at + "/plain")));
  attempt(std::string(CODE) + merging() + " -include " EMULATION_SOURCES "/device.h -o '" + at + "/program.o' '" + at +
          "/program.cpp'");
  attempt(" -x none -shared -o '" + at + "/program.so' '" + at +
          "/program.o' " EMULATION_LINK_FLAGS " " EMULATION_DRIVER); /* with the driver's hooks */
  std::string library = read_file(at + "/program.so");
  image_header header = {emulation::IMAGE_MAGIC, library.size()};
  program.image.assign((const char *)&header, sizeof header);
  program.image += library;
}

} // namespace

extern "C" {

const char *nvrtcGetErrorString(rtc_result result)
{
  return result == RTC_SUCCESS ? "success" : result == RTC_COMPILATION ? "compilation failed" : "failed";
}

/* Caches are keyed by the version: its second number hashes the compiler, its flags and the planted mistake. */
rtc_result nvrtcVersion(int *major, int *minor)
{
  *major = 0;
  *minor = (int)((EMULATION_VERSION + std::hash<std::string>()(planted_fault())) % 0xFFFFFF);
  return RTC_SUCCESS;
}

rtc_result nvrtcCreateProgram(rtc_program *program, const char *source, const char *name, int headers,
                              const char *const *texts, const char *const *names)
{
  *program = new rtc_program_st{source, name ? name : "program.cu", "", "", {}};
  for (int i = 0; i < headers; i++)
    (*program)->headers[names[i]] = texts[i];
  return RTC_SUCCESS;
}

rtc_result nvrtcDestroyProgram(rtc_program *program)
{
  delete *program;
  *program = nullptr;
  return RTC_SUCCESS;
}

rtc_result nvrtcCompileProgram(rtc_program program, int count, const char *const *options)
{
  try {
    compile(*program, count, options);
    return RTC_SUCCESS;
  } catch (const std::exception &problem) {
    program->log = problem.what();
    return RTC_COMPILATION;
  }
}

rtc_result nvrtcGetCUBINSize(rtc_program program, size_t *bytes)
{
  *bytes = program->image.size();
  return RTC_SUCCESS;
}

rtc_result nvrtcGetCUBIN(rtc_program program, char *image)
{
  memcpy(image, program->image.data(), program->image.size());
  return RTC_SUCCESS;
}

rtc_result nvrtcGetProgramLogSize(rtc_program program, size_t *bytes)
{
  *bytes = program->log.size() + 1;
  return RTC_SUCCESS;
}

rtc_result nvrtcGetProgramLog(rtc_program program, char *text)
{
  memcpy(text, program->log.c_str(), program->log.size() + 1);
  return RTC_SUCCESS;
}
}
