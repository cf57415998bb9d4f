"""Tables of text: delimiters, headers, ids, labels, prefixes and what is refused."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from dwcl.data.readers import read
from dwcl.errors import DataError, FileError


@pytest.fixture
def table(tmp_path):
    def write(text, name="data.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return path

    return write


@pytest.mark.parametrize(("name", "mark"), [("a.csv", ","), ("a.csv", ";"), ("a.tsv", "\t")])
def test_delimiters(table, name, mark):
    found = read(table("a,b,c\n1,2,3\n4,5,6.5\n".replace(",", mark), name))
    np.testing.assert_array_equal(found["view1"], [[1, 2, 3], [4, 5, 6.5]])
    assert found.columns["view1"] == ("a", "b", "c")
    assert found.provenance.layout == (
        "views: one table, 3 features",
        "orientation: samples in rows",
        "type: delimited text",
    )


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_byte_order_marks(table, encoding):
    assert read(table("ä,b\n1,2\n", encoding=encoding)).columns["view1"] == ("ä", "b")


def test_compressed_text(table, tmp_path):
    path = tmp_path / "data.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n3,4\n"))
    np.testing.assert_array_equal(read(path)["view1"], [[1, 2], [3, 4]])
    path.write_bytes(gzip.compress(b"a,b\n1,2\n3,4\n" * 50)[:-12])
    with pytest.raises(FileError, match="damaged or its download stopped early"):
        read(path)


def test_quotes_blank_lines_and_line_ends(table):
    found = read(table('"a, one","b"\r\n"1", 2\r\n\r\n3,4\r\n'))
    assert found.columns["view1"] == ("a, one", "b")
    np.testing.assert_array_equal(found["view1"], [[1, 2], [3, 4]])


@pytest.mark.parametrize("mark", ["", "NA", "nan", "NULL", "n/a", "?"])
def test_marks_of_missing_values_become_nan(table, mark):
    found = read(table(f"a,b\n1,2\n3,{mark}\n5,6\n"))
    np.testing.assert_array_equal(found["view1"], [[1, 2], [3, np.nan], [5, 6]])


def test_infinite_values_come_through(table):
    np.testing.assert_array_equal(read(table("a,b\n1,inf\n-inf,2\n"))["view1"][:, 1], [np.inf, 2])


# -- headers


@pytest.mark.parametrize("text", ["1,2\n3,4\n", "0,1\n3,4\n", "5,NA\n3,4\n", "s,0\nt,1\n"])
def test_numbers_in_the_first_line_are_values(table, text):
    found = read(table(text))
    assert found.n_samples == 2
    assert not found.columns


@pytest.mark.parametrize(
    "text", ["0,1,2\n7,8,9\n", "1,2,3\n7,8,9\n", "id,0,1\nx,8,9\n", ",0\n5,9\n"]
)
def test_column_names_that_count_up_are_a_header(table, text):
    assert read(table(text)).n_samples == 1


def test_an_index_without_a_name_makes_ids(table):
    found = read(table(",a,b\n10,1,2\n11,3,4\n"))
    assert found.sample_ids.tolist() == [10, 11]
    assert found.columns["view1"] == ("a", "b")


def test_row_names_that_the_header_leaves_out_make_ids(table):
    found = read(table("a,b\ns1,1,2\ns2,3,4\n"))
    assert found.sample_ids.tolist() == ["s1", "s2"]
    np.testing.assert_array_equal(found["view1"], [[1, 2], [3, 4]])


def test_words_beside_numbers_in_the_first_line_are_values(table):
    found = read(table("s1,1,2\ns2,3,4\n"))
    assert found.sample_ids.tolist() == ["s1", "s2"]
    assert found.n_samples == 2


def test_comments_before_the_table_are_passed_over(table):
    found = read(table("# made by hand\n# a,b\n1,2\n3,4\n"))
    assert found.columns["view1"] == ("a", "b")
    assert found.n_samples == 2
    assert read(table("#one,note\n# another\n1,2,9\n3,4,9\n")).widths == (3,)
    with pytest.raises(DataError, match="line 2: 2 cells, but the lines before have 1"):
        read(table("A title\n1,2\n3,4\n"))


def test_one_row_is_one_sample(table):
    assert read(table("1,2,3\n")).n_samples == 1
    assert read(table("a,b\n1,2\n")).n_samples == 1
    with pytest.raises(DataError, match="a header but no rows below it"):
        read(table("a,b\n"))


def test_one_column_is_one_feature(table):
    np.testing.assert_array_equal(read(table("a\n1\n2\n"))["view1"], [[1], [2]])


# -- ids and labels


@pytest.mark.parametrize("name", ["id", "ID", "sample", "sample_id", "Sample ID", "patient_id"])
def test_ids_by_name(table, name):
    found = read(table(f"a,{name},b\n1,7,2\n3,5,4\n"))
    assert found.sample_ids.tolist() == [7, 5]
    np.testing.assert_array_equal(found["view1"], [[1, 2], [3, 4]])


def test_ids_keep_leading_zeros(table):
    assert read(table("id,a\n007,1\n008,2\n")).sample_ids.tolist() == ["007", "008"]


def test_ids_are_the_first_column_of_text_else_the_column_that_is_named(table):
    path = table("a,name,other\n1,x,8\n2,y,9\n")
    assert read(path).sample_ids.tolist() == ["x", "y"]
    path = table("a,b\n1,8\n2,9\n")
    assert read(path, id_column="b").sample_ids.tolist() == [8, 9]
    with pytest.raises(
        DataError, match=r"id_column='sampel': there is no such column\. Known: a, b"
    ):
        read(path, id_column="sampel")
    with pytest.raises(
        DataError, match="id_column='b' names a column, but the table has no header"
    ):
        read(table("1.5,2\n3,4\n"), id_column="b")


@pytest.mark.parametrize("name", ["label", "Labels", "class", "y", "truth", "ground_truth"])
def test_labels_by_name(table, name):
    found = read(table(f"a,{name},b\n1,0,2\n3,1,4\n5,1,6\n"))
    assert found.labels.tolist() == [0, 1, 1]
    assert found.provenance.layout[2] == f"labels: column {name}, 2 values"


def test_labels_may_be_words(table):
    found = read(table("id,class,b\ns1,cat,2\ns2,dog,4\n"))
    assert found.labels.tolist() == ["cat", "dog"]
    assert found.sample_ids.tolist() == ["s1", "s2"]


def test_measured_values_and_coordinates_are_no_labels(table):
    assert read(table("a,y\n1,0.5\n2,1\n")).labels is None
    assert read(table("x,y\n1,5\n2,1\n")).widths == (2,)


def test_labels_are_the_column_that_is_named(table):
    found = read(table("a,b,label\n1,7,0\n2,8,1\n"), labels="b")
    assert found.labels.tolist() == [7, 8]
    assert found.columns["view1"] == ("a", "label")
    with pytest.raises(DataError, match=r"labels='c': there is no such column or file"):
        read(table("a,b\n1,7\n2,8\n"), labels="c")


def test_labels_from_a_file_take_the_place_of_the_column(table):
    path = table("id,a,label\ns1,1,0\ns2,2,1\n")
    labels = table("s2,dog\ns1,cat\n", "known.csv")
    found = read(path, labels=str(labels))
    assert found.labels.tolist() == ["cat", "dog"]
    assert found.columns["view1"] == ("a", "label")


def test_ids_that_occur_twice_are_refused(table):
    with pytest.raises(
        DataError, match=r"column 'tissue' was taken for the sample ids, but 'skin'"
    ):
        read(table("tissue,a\nskin,1\nskin,2\n"))
    assert read(table("tissue,a\nskin,1\nskin,2\n"), labels="tissue").n_label_values == 1


def test_a_table_without_features_is_refused(table):
    with pytest.raises(DataError, match=r"no columns of features .* divided by commas"):
        read(table("id,label\ns1,1\ns2,2\n"))
    with pytest.raises(DataError, match="no columns of features"):
        read(table("a b\n1 2\n3 4\n"))


def test_an_empty_last_column_is_not_taken_for_ids(table):
    assert read(table("a,b,\n1,2,3\n4,5,3\n")).sample_ids.tolist() == [0, 1]


# -- views by prefix (the rules themselves are in test_prefixes.py)


@pytest.mark.parametrize("mark", ["_", ".", ":"])
def test_prefixes_make_views(table, mark):
    text = "id,rna_a,rna_b,rna_c,prot_a,label,prot_b,prot_c\ns1,1,2,9,3,0,4,9\ns2,5,6,9,7,1,8,9\n"
    found = read(table(text.replace("_", mark)))
    assert found.names == ("rna", "prot")
    np.testing.assert_array_equal(found["prot"], [[3, 4, 9], [7, 8, 9]])
    assert found.columns["prot"] == (f"prot{mark}a", f"prot{mark}b", f"prot{mark}c")
    assert found.provenance.layout[0] == "views: column prefixes rna, prot, 3 + 3 features"


def test_columns_of_a_view_need_not_stand_together(table):
    found = read(table("rna:a,prot:a,rna:b,prot:b\n1,2,3,4\n5,6,7,8\n"))
    np.testing.assert_array_equal(found["rna"], [[1, 3], [5, 7]])
    np.testing.assert_array_equal(found["prot"], [[2, 4], [6, 8]])


def test_a_column_without_a_prefix_is_no_feature_unasked(table):
    path = table("rna_0,rna_1,rna_2,prot_0,prot_1,prot_2,celltype\n1,2,3,4,5,6,0\n6,5,4,3,2,1,1\n")
    with pytest.raises(DataError, match=r"1 column belongs to none of them: celltype\. .*--labels"):
        read(path)
    found = read(path, labels="celltype")
    assert found.names == ("rna", "prot")
    assert found.labels.tolist() == [0, 1]
    assert read(path, id_column="celltype").sample_ids.tolist() == [0, 1]
    assert read(path, views=["rna", "prot"]).widths == (3, 3)
    assert read(path, views=["view1"]).widths == (7,)


# -- orientation


def test_a_table_with_samples_in_columns(table):
    path = table("gene,s1,s2,s3\nTP53,1,2,3\nMYC,4,5,6\n")
    found = read(path, transpose=True)
    np.testing.assert_array_equal(found["view1"], [[1, 4], [2, 5], [3, 6]])
    assert found.sample_ids.tolist() == ["s1", "s2", "s3"]
    assert found.columns["view1"] == ("TP53", "MYC")
    assert found.provenance.layout[1] == "orientation: samples in columns (transposed)"
    assert read(path, transpose=["view1"]).n_samples == 3
    with pytest.raises(DataError, match="transpose names rna, but a single table"):
        read(path, transpose=["rna"])
    with pytest.raises(DataError, match="With samples in columns, the column 'gene'"):
        read(path, transpose=True, labels="gene", id_column="s1")


def test_a_number_of_labels_turns_a_table(table):
    path = table("1.5,2,3\n4,5,6\n")
    labels = table("0\n1\n1\n", "known.txt")
    found = read(path, labels=str(labels))
    assert found["view1"].shape == (3, 2)
    with pytest.raises(DataError, match="There are 4 labels, but the views are 'view1' 2 × 3"):
        read(path, labels=str(table("0\n1\n1\n0\n", "more.txt")))


def test_names_of_samples_that_occur_twice_are_refused(table):
    with pytest.raises(DataError, match="The header was taken for the sample ids, but 's1'"):
        read(table("gene,s1,s1\nTP53,1,2\nMYC,3,4\n"), transpose=True)


# -- what is refused


def test_text_among_numbers_is_named_by_column_and_line(table):
    rows = "\n".join(f"{i},{i}" for i in range(200))
    path = table(f"a,b\n{rows}\n7,abc\n")
    with pytest.raises(DataError, match=r"line 202, column 'b': 'abc' is not a number\. Encode"):
        read(path)
    with pytest.raises(DataError, match=r"line 2, column 3: 'x' is not a number"):
        read(table("1,2.5,3\n4,5,x\n7,8,9\n1,2,3\n"))
    with pytest.raises(DataError, match=r"line 1, column 1: 'abc' is not a number"):
        read(table("abc,2\n3,4\n5,6\n"))


def test_a_second_column_of_text_is_refused(table):
    with pytest.raises(DataError, match=r"line 2, column 'tissue': 'skin' is not a number"):
        read(table("id,tissue,a\ns1,skin,1\ns2,bone,2\n"))


def test_decimal_commas_are_refused_with_a_hint(table):
    with pytest.raises(DataError, match=r"'1,5' is not a number\. Write decimals with a point"):
        read(table("id;a;b\n1;1,5;2,5\n2;2;1,5\n"), id_column="id")


def test_complex_numbers_are_refused(table):
    with pytest.raises(DataError, match=r"'1\+2j' is not a number"):
        read(table("a,b\n1,2\n3,1+2j\n5,6\n7,8\n"))


def test_lines_of_other_lengths_are_named(table):
    with pytest.raises(DataError, match=r"line 4: 1 cells, but the lines before have 2"):
        read(table("a,b\n1,2\n3,4\n5\n7,8\n"))
    rows = "1,2\n" * 150
    with pytest.raises(DataError, match="line 152: 3 cells, but the lines before have 2"):
        read(table(f"a,b\n{rows}1,2,3\n"))


def test_files_that_are_no_text(table, tmp_path):
    path = tmp_path / "data.csv"
    path.write_bytes(bytes(range(128, 256)) * 5)
    with pytest.raises(FileError, match="not a text file in UTF-8"):
        read(path)
    with pytest.raises(FileError, match="has no lines"):
        read(table("\n\n"))
    with pytest.raises(FileError, match="cannot be read as a text table"):
        read(table('a,b\n1,"' + "x" * 200_000 + '"\n'))
