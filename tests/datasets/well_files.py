"""Files for the tests of The Well's layout."""


def store_values(place, values):
    def change(file):
        attrs = dict(file[place].attrs) if place in file else {}
        if place in file:
            del file[place]
        file[place] = values
        file[place].attrs.update(attrs)

    return change
