"""What results look like: a file a result, with `text`, `html` and, where there is a picture, `figure`; see `accel.shown`."""
