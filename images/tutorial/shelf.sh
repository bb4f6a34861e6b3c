for n in 10 20 30 40 50; do echo $n >/proc/shelf; cat /proc/shelf; done
