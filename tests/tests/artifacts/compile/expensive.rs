//! Small components that cost a compiler much, written byte by byte (WebAssembly core specification, chapter 5; component model, `Binary.md`).

/// Types of the core format.
const I32: u8 = 0x7f;
/// Ids of sections.
const TYPES: u8 = 1;
const FUNCTIONS: u8 = 3;
const MEMORIES: u8 = 5;
const CODE: u8 = 10;
const DATA: u8 = 11;
/// Of a component.
const CORE_MODULE: u8 = 1;
const NESTED_COMPONENT: u8 = 4;

/// Pages of a memory of 16 MiB.
const IMAGE_PAGES: u32 = 256;
/// Where its second byte lies: just before its end, as far as wasmtime makes one image of all.
const IMAGE_END: u32 = (16 << 20) - 5000;

/// As many modules, each of which has a byte at the beginning and one at the end of 16 MiB: the compiler writes all that lies between.
pub(crate) fn bloating(modules: u32) -> Vec<u8> {
    let segment = |at: u32| [vec![0, 0x41], signed(at), vec![0x0b, 1, 1]].concat();
    let memory = [vec![0], number(IMAGE_PAGES)].concat();
    let module = module(&[
        (MEMORIES, vector(&[memory])),
        (DATA, vector(&[segment(0), segment(IMAGE_END)])),
    ]);
    let modules: Vec<_> = (0..modules).map(|_| module.clone()).collect();
    component(&modules)
}

/// One function of nested loops in the innermost of which all of many variables change: each loop needs to know each of them.
pub(crate) fn hanging(loops: u32, variables: u32) -> Vec<u8> {
    let mut body = vector(&[[number(variables), vec![I32]].concat()]);
    let turn = |code: &mut Vec<u8>| code.extend([0x20, 0, 0x0d, 0]);
    (0..loops).for_each(|_| body.extend([0x03, 0x40]));
    for variable in 0..variables {
        let variable = number(variable);
        body.push(0x20);
        body.extend(&variable);
        body.extend([0x41, 1, 0x6a, 0x21]);
        body.extend(&variable);
    }
    for _ in 0..loops {
        turn(&mut body);
        body.push(0x0b);
    }
    body.push(0x0b);
    let function = [number(length(&body)), body].concat();
    let module = module(&[
        (TYPES, vector(&[vec![0x60, 0, 0]])),
        (FUNCTIONS, vector(&[vec![0]])),
        (CODE, vector(&[function])),
    ]);
    component(&[module])
}

/// Components in one another, the innermost empty.
pub(crate) fn deep(depth: u32) -> Vec<u8> {
    let around = |inner: Vec<u8>| [component(&[]), section(NESTED_COMPONENT, &inner)].concat();
    (0..depth).fold(component(&[]), |inner, _| around(inner))
}

fn component(modules: &[Vec<u8>]) -> Vec<u8> {
    let modules = modules.iter().map(|module| section(CORE_MODULE, module));
    let header = b"\0asm\x0d\0\x01\0".to_vec();
    [header]
        .into_iter()
        .chain(modules)
        .collect::<Vec<_>>()
        .concat()
}

fn module(sections: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let sections = sections.iter().map(|(id, content)| section(*id, content));
    let header = b"\0asm\x01\0\0\0".to_vec();
    [header]
        .into_iter()
        .chain(sections)
        .collect::<Vec<_>>()
        .concat()
}

fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [vec![id], number(length(content)), content.to_vec()].concat()
}

fn vector(items: &[Vec<u8>]) -> Vec<u8> {
    [number(u32::try_from(items.len()).unwrap()), items.concat()].concat()
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap()
}

/// Unsigned LEB128.
fn number(mut number: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

/// Signed LEB128 of a number that is not negative: its last byte must not look as if it were.
fn signed(value: u32) -> Vec<u8> {
    let mut bytes = number(value);
    if let Some(last) = bytes.last_mut().filter(|last| **last & 0x40 != 0) {
        *last |= 0x80;
        bytes.push(0);
    }
    bytes
}
