# shellcheck shell=sh
# Sourced: mpirun_command is what starts $1 with ranks (its MPI's mpirun and "-n"), empty when it has no MPI or there is no mpirun.
case $(ldd "$1" 2>/dev/null) in
*libmpi.so*) mpirun_command="$(command -v mpirun.openmpi || command -v mpirun) --oversubscribe --bind-to none --quiet -n" ;;
*libmpich.so*) mpirun_command="$(command -v mpirun.mpich || command -v mpirun) -n" ;;
*) mpirun_command='' ;;
esac
case $mpirun_command in -* | ' '*) mpirun_command='' ;; esac
# Containers are often root's, and Open MPI then wants to be told so.
if [ "$(id -u)" = 0 ]; then
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
fi
