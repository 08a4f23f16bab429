import moca


def test_a_data_set_prints_as_one_line(make_dataset):
    digits = moca.load("digits")
    assert str(digits) == repr(digits) == "Dataset 'digits': 1347 training and 450 test images of 10 classes, 1x8x8"
    assert str(digits.test) == repr(digits.test) == "Split of 450 images, 1x8x8"
    assert repr(make_dataset((4,))) == "Dataset 'toy': 4 training and 3 test images of 1 class, 1x4x4"
