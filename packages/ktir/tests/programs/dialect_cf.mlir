// RUN levels: V
func.func @f(%c: i1, %a: index) -> index {
  cf.cond_br %c, ^one(%a : index), ^two
^one(%x: index):
  cf.br ^three(%x : index)
^two:
  cf.br ^three(%a : index)
^three(%y: index):
  return %y : index
}
