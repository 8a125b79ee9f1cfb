"""One vocabulary over this package and over tinygrad, programs in it, and a counter over both item lists."""
