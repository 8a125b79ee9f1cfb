// Sets as people write them: other right sides, both directions, no blanks, named dimensions, nothing at all, linear forms.
func.func private @sets() attributes {
  a = affine_set<(d0) : (d0 >= 96)>, b = affine_set<(d0) : (d0 <= 3)>, c = affine_set<(r, c)[n] : (r>=0,r<=n-1,c>=0,-c+63>=0)>,
  d = affine_set<(d0) : (-d0 + 0 >= 0, d0 >= 0)>, e = affine_set<() : ()>, f = affine_set<() : (0 == 0)>, g = affine_set<(i)[g] : (i - 5 == 0)>,
  h = affine_set<(i)[g] : ((i - g) mod 3 == 0, i >= g, i <= g + 6)>, i = affine_set<(x, y) : (2 * x - 3 * y + 1 >= 0, x floordiv 2 == y ceildiv 3, -(x - 5) >= 0)>,
  j = affine_set<(d0)[s0, s1] : (s0 * 2 - s1 >= d0 + 4)>, k = affine_set<(x) : (x * 1 + 0 >= 0 + 0)>, l = affine_set<()[n] : (n - 1 >= 0)>, m = affine_set<(if, for, mod_) : (if + for >= mod_)>,
  map0 = affine_map<() -> ()>, map1 = affine_map<()[s] -> (s)>, map2 = affine_map<(a, b) -> ()>, map3 = affine_map<(a, b)[c] -> (a + b * c, (a + 1) floordiv 4, -a mod 8, 7)>, map4 = affine_map<(d0, d1) -> (d1, d0, d0 - d1, 0)>}
