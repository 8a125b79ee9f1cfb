// Tabs, comments in the middle of an operation, blank lines, operations on one line, no final newline.
func.func@packed(%p:index,%q:index)attributes{grid=[1]}{%v=ktdp.construct_memory_view%p,sizes:[32],strides:[1]{coordinate_set=affine_set<(i):(i>=0,-i+31>=0)>,memory_space=#ktdp.memory_space<global>}:memref<32xf16>return}
func.func	@loose	( // arguments
	%p :
		index // the address
	,
	%n : index )
	-> // nothing yet
	(
	index
	)

{
	%v
	=
	ktdp.construct_memory_view %p
	, sizes : [ %n , // rows
	 64 ] , strides : [ 64 , 1 ]

	{ // the two attributes

	memory_space = #ktdp.memory_space < global > // where
	,
	coordinate_set = affine_set < ( r , c ) [ n ] : ( r >= 0 , - r + n - 1 >= 0 , c >= 0 , - c + 63 >= 0 ) >
	}
	: memref < ? x 64 x f16 >

	%c = arith.constant
	7
	: index %d = arith.addi %c , %n
	: index return %d
	: index
}
// the end