/* svg_test: pictures are well-formed for any content, and styles differ. */
#include "report/svg.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "report/markup.h"
#include "report/markup_fixture.h"
#include "report/style.h"

static void assert_well_formed(const struct str *text)
{
    char why[256];
    if (!markup_is_well_formed(str_text(text), why, sizeof why))
        fail_msg("%s", why);
}

static void markup_text_is_escaped(void **state)
{
    (void)state;
    struct str out;
    str_init(&out, 1 << 16);
    markup_text(&out, "<a href=\"x\">&'\x01\xff\xc3\xa9\n");
    assert_string_equal(str_text(&out), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;"
                                        "\xef\xbf\xbd\xef\xbf\xbd\xc3\xa9\n");
    str_done(&out);
}

/* Tests the fixture itself: each kind of broken markup is found. */
static void malformed_markup_is_detected(void **state)
{
    (void)state;
    static const char *const broken[] = {"<a>",
                                         "<a></b>",
                                         "<a x=1/>",
                                         "<a x=\"1\" x=\"2\"/>",
                                         "a & b",
                                         "<a x=\"<\"/>",
                                         "<p id=\"i\"/><p id=\"i\"/>",
                                         "</a>",
                                         "\xff",
                                         "<a x=\"1/>",
                                         "<>",
                                         "&nbsp;"};
    char why[256];
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        assert_false(markup_is_well_formed(broken[i], why, sizeof why));
    assert_true(
        markup_is_well_formed("<a x=\"&lt;\" id=\"i\">t&#8239;<b/></a>\n", why, sizeof why));
}

static void picture_survives_any_value(void **state)
{
    (void)state;
    static const double values[] = {0, -0.04, 1.25, 1e300, -1e300, INFINITY, -INFINITY, NAN};
    struct str out;
    struct svg g;
    str_init(&out, 1 << 20);
    svg_begin(&g, &out, "f", 100, 50, "a <title>", "b & c");
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        double v = values[i];
        svg_line(&g, v, 1, 2, v, "stroke=\"#000\"");
        svg_rect(&g, 0, v, v, v, "fill=\"#000\"");
        svg_tip(&g, v, v, 1, 1, "<tip>");
        svg_text(&g, v, v, "", "</text>");
        svg_text_within(&g, v, v, "", "a name that is much longer than there is room", 60);
        svg_path_begin(&g);
        svg_path_to(&g, v, v);
        svg_path_to(&g, 1, 2);
        svg_path_close(&g);
        svg_path_end(&g, "fill=\"none\"");
        style_marker(&g, i, v, v);
        style_key(&g, i, v, v);
    }
    svg_end(&g);
    assert_false(str_failed(&out));
    assert_well_formed(&out);
    assert_null(strstr(str_text(&out), "nan"));
    assert_null(strstr(str_text(&out), "inf"));
    assert_null(strstr(str_text(&out), "\"-0\""));
    assert_non_null(strstr(str_text(&out), "<title id=\"f-title\">a &lt;title&gt;</title>"));
    assert_non_null(strstr(str_text(&out), "\xe2\x80\xa6</text>"));
    str_done(&out);
}

static void line_and_face_styles_differ(void **state)
{
    (void)state;
    enum { LINES = 100, FACES = 40, LOOK_MAX = 1024 };
    static char looks[LINES][LOOK_MAX];
    struct str out;
    struct svg g = {.out = &out, .id = "f"};
    str_init(&out, 1 << 16);
    for (size_t i = 0; i < LINES; i++) {
        str_clear(&out);
        style_key(&g, i, 0, 0);
        assert_true(str_copy(looks[i], LOOK_MAX, str_text(&out)));
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(looks[i], looks[j]);
    }
    for (size_t i = 0; i < FACES; i++) {
        char attributes[STYLE_TEXT_MAX], *number;
        str_clear(&out);
        style_define_face(&g, i);
        style_face(&g, i, attributes);
        if (out.length == 0)
            str_append(&out, attributes);
        assert_true(str_copy(looks[i], LOOK_MAX, str_text(&out)));
        if ((number = strstr(looks[i], "face-"))) /* ignoring the name of the hatch */
            memset(number, '-', strcspn(number, "\""));
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(looks[i], looks[j]);
    }
    str_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(markup_text_is_escaped),
        cmocka_unit_test(malformed_markup_is_detected),
        cmocka_unit_test(picture_survives_any_value),
        cmocka_unit_test(line_and_face_styles_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
