"""Shell. Takes messages from a log and sees each of them delivered, or buried, before it is settled.

``supervisor`` runs one ``dispatch.Dispatcher`` a subscription, or an ``offering.Offering`` where events are
pulled. Each asks the log for batches; ``settling`` gives back what is finished and holds back what may not be
read; ``ownership`` makes ready what is newly ours; ``intake`` reads and filters; ``courier`` sends, one attempt at a time in each lane, when ``timing`` and ``budget`` let it;
``concluding`` carries out what was decided: ``parking`` moves a key to the store, ``drain_parked`` and
``redriven`` bring it back, ``sweeping`` deletes what was delivered, ``burial`` stores dead letters;
``attempts`` remembers, logs and counts; ``expiry_alarm`` warns of a pause that lasts too long.
``run`` keeps one of them running; ``replaying`` reads a range again beside it; ``commands`` does what
the API asks of whichever worker there is.
"""
