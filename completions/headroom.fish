# fish completion of headroom(1). tests/cli/options.sh holds the options against `headroom COMMAND --help`.

function __headroom_uses
    set -l words (commandline -opc)
    test (count $words) -ge 2; and contains -- $words[2] $argv
end

function __headroom_add
    # __headroom_add "commands" options-of-complete...
    complete -c headroom -n "__headroom_uses $argv[1]" $argv[2..-1]
end

complete -c headroom -f
complete -c headroom -n "not __headroom_uses describe advise search gemm sweep devices kernels help" -a describe -d "parameters, memory and operators"
complete -c headroom -n "not __headroom_uses describe advise search gemm sweep devices kernels help" -a advise -d "what to change, and what it gains"
complete -c headroom -n "not __headroom_uses describe advise search gemm sweep devices kernels help" -a search -d "faster shapes"
complete -c headroom -n "not __headroom_uses describe advise search gemm sweep devices kernels help" -a gemm -d "one matrix product"
complete -c headroom -n "not __headroom_uses describe advise search gemm sweep devices kernels help" -a sweep -d "a figure, point by point"
complete -c headroom -n "not __headroom_uses describe advise search gemm sweep devices kernels help" -a devices -d "devices known by name"
complete -c headroom -n "not __headroom_uses describe advise search gemm sweep devices kernels help" -a kernels -d "the kernels"
complete -c headroom -n "not __headroom_uses describe advise search gemm sweep devices kernels help" -a help -d "help about a command"

set -l models "describe advise search"
set -l all "describe advise search gemm sweep devices kernels help"
__headroom_add $models -F -a "(headroom describe --list 2>/dev/null)"
__headroom_add sweep -F -a "list (headroom sweep --list 2>/dev/null)"
__headroom_add devices -a "(headroom devices --list 2>/dev/null)"
__headroom_add help -a "describe advise search gemm sweep devices kernels help models rules"

__headroom_add "$models gemm sweep" -l device -s d -r -a "(headroom devices --list 2>/dev/null)" -d "device"
__headroom_add $models -l batch -s b -x -d "sequences in a microbatch"
__headroom_add $models -l seq -s s -x -d "tokens in a sequence"
__headroom_add $models -l tensor-parallel -s t -x -d "devices that share each layer"
__headroom_add $models -l pipeline-stages -s p -x -d "stages of the layers"
__headroom_add $models -l phase -x -a "forward train prefill decode" -d "what a step is"
__headroom_add $models -l context -x -d "tokens in the KV cache"
__headroom_add $models -l attention -x -a "unfused fused" -d "whether the scores go through memory"
__headroom_add "$models gemm sweep" -l dtype -x -a "fp64 fp32 tf32 fp16 bf16 fp8" -d "number format"
__headroom_add "advise gemm" -l measure -s m -d "measure on this machine"
__headroom_add "advise gemm" -l budget -x -d "seconds for measuring"
__headroom_add "advise gemm" -l threads -x -d "cores to measure with"
__headroom_add advise -l strict -d "exit with 1 on a high finding"
__headroom_add advise -l table -x -a "findings operators measurements" -d "table of the CSV"
__headroom_add search -l param-band -x -d "how far the parameters may move"
__headroom_add search -l hidden -x -d "hidden sizes, MIN:MAX[:STEP]"
__headroom_add search -l layers -x -d "layers, MIN:MAX"
__headroom_add search -l heads -x -d "query heads, MIN:MAX"
__headroom_add search -l head-dim -x -d "head sizes, MIN:MAX"
__headroom_add search -l mlp-width -x -d "MLP widths, MIN:MAX[:STEP]"
__headroom_add search -l vocab-multiple -x -d "pad the vocabulary"
__headroom_add search -l keep-vocabulary -d "leave the vocabulary alone"
__headroom_add search -l kv-ratio -x -d "query heads for each K and V head"
__headroom_add search -l allow-uneven -d "also what t and p do not divide"
__headroom_add search -l limit -s n -x -d "shapes to list"
__headroom_add search -l max-shapes -x -d "stop after so many shapes"
__headroom_add gemm -l m -x -d "rows of A and C"
__headroom_add gemm -l n -x -d "columns of B and C"
__headroom_add gemm -l k -x -d "columns of A, rows of B"
__headroom_add gemm -l batch-count -x -d "products of this size"
__headroom_add gemm -l transpose-a -d "A is stored transposed"
__headroom_add gemm -l transpose-b -d "B is stored transposed"
__headroom_add gemm -l kernel -x -a "(headroom kernels --list 2>/dev/null)" -d "kernel"
__headroom_add gemm -l warm -d "the same data again and again"
__headroom_add sweep -l points -x -d "only so many points"
__headroom_add devices -l probe -d "measure rates"
__headroom_add "describe sweep devices kernels" -l list -d "only the names"
__headroom_add $all -l format -s f -x -a "table json csv markdown" -d "form of the result"
__headroom_add $all -l output -s o -r -F -d "write to a file"
__headroom_add $all -l color -x -a "auto always never" -d "colours in tables"
__headroom_add $all -l verbose -s v -d "say more"
__headroom_add $all -l quiet -s q -d "no progress line"
__headroom_add $all -l help -s h -d "options of the command"
