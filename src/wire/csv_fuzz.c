/* The reader of tables on any bytes: cells point into the text, and every row has one cell for each
 * column. */
#include "wire/csv.h"
#include "wire/fuzz_fixture.h"

static void check_row(const struct csv *c, const char *text, size_t length)
{
    for (size_t i = 0; i < c->column_count; i++) {
        double number;
        int64_t integer;
        char cell[CSV_CELL_MAX];
        fuzz_check(c->cells[i].start >= text &&
                   c->cells[i].start + c->cells[i].length <= text + length);
        if (csv_number(NULL, c, (int)i, -10, 10, &number) == 0)
            fuzz_check(number >= -10 && number <= 10);
        if (csv_integer(NULL, c, (int)i, 0, 99, &integer) == 0)
            fuzz_check(integer >= 0 && integer <= 99);
        (void)csv_text(NULL, c, (int)i, cell, sizeof cell);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct csv c;
    struct error e;
    if (csv_open(&e, (const char *)data, size, &c) < 0)
        return 0;
    fuzz_check(c.column_count > 0 && c.column_count <= CSV_COLUMNS_MAX);
    while (csv_next(&e, &c) == 1)
        check_row(&c, (const char *)data, size);
    return 0;
}
