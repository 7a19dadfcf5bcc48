/* SPDX-License-Identifier: Apache-2.0 */
/* Any texts in the title, a table and a figure of an HTML page: gumbo, a parser of HTML5, finds the elements that
 * the page has without them, no other attribute, and the same texts; the figure's numbers are JSON. */
#include "expect.h"
#include "fuzz.h"
#include "texts.h"

#include "base/names.h"
#include "base/quantity.h"
#include "report/page.h"

#include <gumbo.h>
#include <jansson.h>
#include <string.h>

/* What has been found on the way through the page. */
typedef struct walk {
  const fuzz_texts *texts;
  size_t cells, elements, attributes;
  int titles, captions, figures;
  char found[2 * HR_CELL_TEXT_SIZE];
  size_t length;
} walk;

static void expect_text(const walk *w, const char *text)
{
  char clean[HR_CELL_TEXT_SIZE];
  hr_copy_text(clean, sizeof clean, text);
  EXPECT(w->length == strlen(clean) && memcmp(w->found, clean, w->length) == 0);
}

static void expect_cell(walk *w)
{
  hr_cell cell;
  char buffer[HR_NUMBER_SIZE];
  size_t row = w->cells / FUZZ_COLUMNS, column = w->cells % FUZZ_COLUMNS;
  EXPECT(row < hr_table_rows(w->texts->table));
  const char *shown = hr_table_show(w->texts->table, row, column, &cell, buffer, sizeof buffer);
  EXPECT(w->length == strlen(shown) && memcmp(w->found, shown, w->length) == 0);
  w->cells++;
}

/* The texts of a figure are cut to its fields. */
static void expect_figure(walk *w)
{
  char clean[HR_FIGURE_TEXT];
  json_t *json = json_loadb(w->found, w->length, JSON_REJECT_DUPLICATES, NULL);
  EXPECT(json);
  hr_copy_text(clean, sizeof clean, w->texts->texts[1]);
  EXPECT(strcmp(json_string_value(json_object_get(json, "title")), clean) == 0);
  json_decref(json);
  w->figures++;
}

static void expect_attributes(walk *w, const GumboElement *element)
{
  for (unsigned i = 0; i < element->attributes.length; i++) {
    const GumboAttribute *attribute = element->attributes.data[i];
    EXPECT(strncmp(attribute->name, "on", 2) != 0 && strcmp(attribute->name, "src") != 0 &&
           strcmp(attribute->name, "href") != 0);
    w->attributes++;
  }
}

static void add_texts(walk *w, const GumboNode *node)
{
  for (unsigned i = 0; i < node->v.element.children.length; i++) {
    const GumboNode *child = node->v.element.children.data[i];
    EXPECT(child->type != GUMBO_NODE_COMMENT && child->type != GUMBO_NODE_CDATA);
    if (child->type != GUMBO_NODE_TEXT && child->type != GUMBO_NODE_WHITESPACE)
      continue;
    size_t length = strlen(child->v.text.text);
    EXPECT(w->length + length <= sizeof w->found);
    memcpy(w->found + w->length, child->v.text.text, length);
    w->length += length;
  }
}

static void visit(walk *w, const GumboNode *node)
{
  if (node->type != GUMBO_NODE_ELEMENT)
    return;
  const GumboElement *element = &node->v.element;
  w->elements++;
  expect_attributes(w, element);
  w->length = 0;
  if (element->tag != GUMBO_TAG_STYLE) /* the page's own */
    add_texts(w, node);
  if (element->tag == GUMBO_TAG_TITLE || element->tag == GUMBO_TAG_H1) {
    expect_text(w, w->texts->texts[0]);
    w->titles++;
  } else if (element->tag == GUMBO_TAG_CAPTION) {
    expect_text(w, w->texts->texts[1]);
    w->captions++;
  } else if (element->tag == GUMBO_TAG_TD) {
    expect_cell(w);
  } else if (element->tag == GUMBO_TAG_SCRIPT) {
    expect_figure(w);
  }
  for (unsigned i = 0; i < element->children.length; i++)
    visit(w, element->children.data[i]);
}

static void write_figure(FILE *out, const fuzz_texts *texts)
{
  hr_error error = {.status = HR_OK};
  hr_figure *figure = hr_figure_new(), *ended = NULL;
  EXPECT(figure);
  hr_copy_text(figure->title, sizeof figure->title, texts->texts[1]);
  hr_copy_text(figure->note, sizeof figure->note, texts->texts[2]);
  hr_copy_text(figure->x.label, sizeof figure->x.label, texts->texts[3]);
  size_t series = hr_figure_add_series(figure, texts->texts[4], HR_FIGURE_MARK_LINE, HR_FIGURE_MEASURED);
  hr_figure_add_point(figure, series, hr_figure_value(1, 2));
  hr_figure_add_rule(figure, true, 1, texts->texts[5]);
  EXPECT(hr_figure_end(figure, &ended, &error) == HR_OK && hr_page_write_figure(out, ended, &error) == HR_OK);
  hr_figure_free(ended);
}

/* Without its end, which has the scripts of every page. */
static walk read_page(const fuzz_texts *texts)
{
  walk w = {.texts = texts};
  char *text = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&text, &length);
  EXPECT(out);
  hr_page_begin(out, texts->texts[0]);
  hr_page_write_table(out, texts->table, texts->texts[1]);
  write_figure(out, texts);
  fclose(out);
  GumboOutput *page = gumbo_parse_with_options(&kGumboDefaultOptions, text, length);
  EXPECT(page);
  visit(&w, page->root);
  gumbo_destroy_output(&kGumboDefaultOptions, page);
  free(text);
  EXPECT(w.cells == FUZZ_COLUMNS * hr_table_rows(texts->table));
  EXPECT(w.titles == 2 && w.captions == 1 && w.figures == 1);
  return w;
}

/* gumbo replaces noncharacters such as U+FFFF, unlike HTML: texts that may have one are left out. */
static bool has_noncharacters(const fuzz_texts *texts)
{
  for (int i = 0; i < 2 * FUZZ_ROWS_MAX; i++) {
    const char *text = texts->texts[i];
    if (strstr(text, "\xBF\xBE") || strstr(text, "\xBF\xBF") || strstr(text, "\xEF\xB7"))
      return true;
  }
  return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static fuzz_texts texts, plain;
  char clean[FUZZ_TEXT_MAX];
  fuzz_read_texts(data, size, &texts);
  if (has_noncharacters(&texts)) {
    hr_table_free(texts.table);
    return 0;
  }
  walk page = read_page(&texts);
  fuzz_read_texts((const uint8_t *)"a\0b\0c\0d\0e\0f\0g\0h", 2 * 2 * hr_table_rows(texts.table) - 1, &plain);
  for (int i = 0; i < 2 * FUZZ_ROWS_MAX; i++) { /* an empty text may have no element */
    hr_copy_text(clean, sizeof clean, texts.texts[i]);
    if (!clean[0])
      plain.texts[i][0] = '\0';
  }
  walk other = read_page(&plain);
  EXPECT(page.elements == other.elements && page.attributes == other.attributes);
  hr_table_free(texts.table);
  hr_table_free(plain.table);
  return 0;
}
